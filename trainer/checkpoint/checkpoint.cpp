#include "trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <system_error>

#include "indexed_dataset/soundness/xxh3.h"
#include "indexed_dataset/storage/file_io.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

std::string file_of_rank(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "state_%05d.safetensors", rank);
  return name;
}

TensorPiece piece_of(const StateTensor& tensor) {
  return {tensor.name,  tensor.global_shape,         tensor.split_dim, tensor.begin, tensor.end,
          tensor.first, tensor.tensor.num_elements()};
}

// A whole slice has its own shape in the file, so that other programs can read it; other pieces are
// flat.
std::vector<int64_t> shape_in_file(const TensorPiece& piece) {
  if (piece.count != slice_elements(piece)) return {piece.count};
  std::vector<int64_t> shape = piece.global_shape;
  if (piece.split_dim >= 0) shape[static_cast<size_t>(piece.split_dim)] = piece.end - piece.begin;
  return shape;
}

// Calls consume(chunk, bytes) for the tensor's bytes, front to back.
template <typename Consume>
void for_each_chunk(const Tensor& tensor, CheckpointStaging& staging, Consume consume) {
  const char* source = tensor.as<char>();
  for (int64_t done = 0; done < tensor.num_bytes(); done += staging.num_bytes()) {
    const int64_t bytes = std::min(staging.num_bytes(), tensor.num_bytes() - done);
    staging.backend().copy(staging.data(), source + done, bytes, Stream::kCompute);
    staging.backend().synchronize();
    consume(staging.data(), bytes);
  }
}

std::vector<StoredPiece> write_rank_file(const fs::path& path,
                                         const std::vector<StateTensor>& tensors,
                                         CheckpointStaging& staging) {
  std::vector<SafetensorsEntry> entries;
  std::vector<StoredPiece> pieces;
  std::map<std::string, int> num_of_name;
  for (const StateTensor& tensor : tensors) {
    StoredPiece& stored = pieces.emplace_back();
    stored.piece = piece_of(tensor);
    stored.file = path.filename().string();
    const int number = ++num_of_name[tensor.name];
    stored.key = number == 1 ? tensor.name : tensor.name + "#" + std::to_string(number);
    stored.dtype = safetensors_dtype(tensor.tensor.dtype());
    entries.push_back({stored.key, stored.dtype, shape_in_file(stored.piece), 0, 0});
  }
  OutputFile file(path);
  const std::string header = safetensors_header(entries, {{"format", "pt"}});
  file.append(header.data(), header.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    for_each_chunk(tensors[i].tensor, staging, [&](const char* chunk, int64_t bytes) {
      XXH3_64bits_update(&hash, chunk, static_cast<size_t>(bytes));
      file.append(chunk, static_cast<size_t>(bytes));
    });
    pieces[i].xxh3 = XXH3_64bits_digest(&hash);
  }
  file.sync();
  file.close();
  return pieces;
}

}  // namespace

CheckpointStaging::CheckpointStaging(Backend& backend, const std::vector<StateTensor>& tensors)
    : backend_(backend), num_bytes_(256) {
  constexpr int64_t kMaxBytes = 64 << 20;
  for (const StateTensor& tensor : tensors)
    num_bytes_ = std::max(num_bytes_, std::min(kMaxBytes, tensor.tensor.num_bytes()));
  data_ = backend.allocate(num_bytes_, Memory::kPinnedHost);
}

CheckpointStaging::~CheckpointStaging() {
  try {
    backend_.release(data_, Memory::kPinnedHost);
  } catch (...) {
    // The device has failed. Its error is already on its way, and the backend frees what is left.
  }
}

std::vector<StateTensor> written_by(const ParallelLayout& layout, bool shards_optimizer,
                                    const std::vector<StateTensor>& tensors) {
  std::vector<StateTensor> written;
  // All ranks count alike, because they hold the same replicas in the same order.
  std::vector<int64_t> dealt_bytes(static_cast<size_t>(layout.dp_size));
  const auto is_dealt_to_this_rank = [&](const StateTensor& tensor) {
    const auto least = std::min_element(dealt_bytes.begin(), dealt_bytes.end());
    *least += tensor.tensor.num_bytes();
    return least - dealt_bytes.begin() == layout.dp_rank;
  };
  for (const StateTensor& tensor : tensors) {
    const bool is_tied_copy =
        layout.pp_rank > 0 && tensor.name.ends_with("/embedding.word_embeddings.weight");
    const bool is_sharded = shards_optimizer && tensor.name.starts_with("optimizer/");
    const bool is_of_first_tensor_rank = tensor.split_dim < 0 && layout.tp_rank > 0;
    if (is_tied_copy || is_of_first_tensor_rank) continue;
    if (is_sharded || is_dealt_to_this_rank(tensor)) written.push_back(tensor);
  }
  return written;
}

void save_checkpoint(const fs::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, CheckpointStaging& staging,
                     HostGroup& ranks) {
  staging.backend().synchronize();
  const int64_t iteration = info.scalars.iteration;
  const fs::path folder = checkpoint_folder(dir, iteration);
  const fs::path part = folder.string() + ".part";
  const bool is_first = ranks.rank() == 0;
  try {
    if (is_first) {
      remove_leftovers(dir);
      fs::create_directories(part);
    }
    ranks.all_gather("");  // the folder is there
    const std::vector<StoredPiece> mine =
        write_rank_file(part / file_of_rank(ranks.rank()), tensors, staging);
    const std::vector<std::string> of_ranks = ranks.all_gather(pieces_to_text(mine));
    if (!is_first) return;
    Manifest manifest;
    manifest.info = info;
    for (const std::string& text : of_ranks) {
      const std::vector<StoredPiece> pieces = pieces_from_text(text);
      manifest.pieces.insert(manifest.pieces.end(), pieces.begin(), pieces.end());
    }
    write_file_atomically(manifest_path(part), to_json(manifest));
    commit_folder(part, folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(part, ignored);  // half a checkpoint would keep a full disk full
    throw;
  }
  set_latest_iteration(dir, iteration);
}

void save_checkpoint(const fs::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, Backend& backend) {
  CheckpointStaging staging(backend, tensors);
  save_checkpoint(dir, info, tensors, staging, *create_lone_host_group());
}

void remove_old_checkpoints(const fs::path& dir, int64_t iteration, int64_t keep_last,
                            std::optional<int64_t> keep_every) {
  int64_t num_kept = 0;
  for (const int64_t stored : stored_iterations(dir)) {  // newest first
    // Those after it are of a past that this run has left; it replaces them one by one.
    if (stored > iteration) continue;
    const fs::path folder = checkpoint_folder(dir, stored);
    if (!fs::exists(manifest_path(folder))) continue;  // no checkpoint of ours
    if (num_kept < keep_last && problem_of_checkpoint(dir, stored).empty()) {
      ++num_kept;
      continue;
    }
    if (keep_every && stored % *keep_every == 0) continue;
    // A kill underway leaves a folder that remove_leftovers() knows.
    const fs::path removed = folder.string() + ".part";
    commit_rename(folder, removed);
    fs::remove_all(removed);
  }
}

CheckpointInfo read_checkpoint_info(const fs::path& dir, int64_t iteration) {
  return manifest_of(dir, iteration).info;
}

void load_checkpoint(const fs::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, CheckpointStaging& staging) {
  CheckpointReader reader(dir, iteration);
  const int64_t chunk_elements = staging.num_bytes() / 4;
  for (const StateTensor& tensor : tensors) {
    const int64_t num_elements = tensor.tensor.num_elements();
    const int64_t element_bytes = size_bytes(tensor.tensor.dtype());
    for (int64_t done = 0; done < num_elements; done += chunk_elements) {
      TensorPiece chunk = piece_of(tensor);
      chunk.first += done;
      chunk.count = std::min(chunk_elements, num_elements - done);
      reader.read(chunk, tensor.tensor.dtype(), staging.data());
      staging.backend().copy(tensor.tensor.as<char>() + done * element_bytes, staging.data(),
                             chunk.count * element_bytes, Stream::kCompute);
      staging.backend().synchronize();
    }
  }
}

void load_checkpoint(const fs::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, Backend& backend) {
  CheckpointStaging staging(backend, tensors);
  load_checkpoint(dir, iteration, tensors, staging);
}

}  // namespace weft
