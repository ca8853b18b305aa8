#include "trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/rank_file.h"
#include "trainer/config/memory_plan.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

fs::path part_folder(const fs::path& dir, int64_t iteration) {
  return checkpoint_folder(dir, iteration).string() + ".part";
}

void abandon_checkpoint(const fs::path& dir, int64_t iteration) {
  std::error_code ignored;
  fs::remove_all(part_folder(dir, iteration), ignored);
}

// The memory of a save or load without a plan.
struct LoneStaging {
  LoneStaging(Backend& backend, const std::vector<StateTensor>& tensors) : staging{backend, {}} {
    plan.add(MemoryClass::kPinnedHost, "staging", &staging.memory, DType::kUInt8,
             {staging_bytes(tensors)});
    plan.allocate(backend);
  }
  MemoryPlan plan;
  CheckpointStaging staging;
};

void read_through(CheckpointStaging& staging, const StateTensor& tensor, const Consume& consume) {
  const char* source = tensor.tensor.as<char>();
  const int64_t num_bytes = tensor.tensor.num_bytes();
  for (int64_t done = 0; done < num_bytes; done += staging.num_bytes()) {
    const int64_t bytes = std::min(staging.num_bytes(), num_bytes - done);
    staging.backend.copy(staging.data(), source + done, bytes, Stream::kCompute);
    staging.backend.synchronize();
    consume(staging.data(), bytes);
  }
}

}  // namespace

int64_t staging_bytes(const std::vector<StateTensor>& tensors) {
  constexpr int64_t kMaxBytes = 64 << 20;
  int64_t num_bytes = 256;
  for (const StateTensor& tensor : tensors)
    num_bytes = std::max(num_bytes, std::min(kMaxBytes, tensor.tensor.num_bytes()));
  return num_bytes;
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

fs::path begin_checkpoint(const fs::path& dir, int64_t iteration, HostGroup& ranks) {
  const fs::path part = part_folder(dir, iteration);
  if (ranks.rank() == 0) {
    remove_leftovers(dir);
    fs::create_directories(part);
  }
  ranks.all_gather("");  // the folder is there
  return part;
}

void commit_checkpoint(const fs::path& dir, const CheckpointInfo& info,
                       const std::vector<std::string>& pieces_by_rank) {
  const int64_t iteration = info.scalars.iteration;
  const fs::path part = part_folder(dir, iteration);
  try {
    Manifest manifest;
    manifest.info = info;
    for (const std::string& text : pieces_by_rank) {
      const std::vector<StoredPiece> pieces = pieces_from_text(text);
      manifest.pieces.insert(manifest.pieces.end(), pieces.begin(), pieces.end());
    }
    write_file_atomically(manifest_path(part), to_json(manifest));
    crash_point("checkpoint_manifest_written");
    commit_folder(part, checkpoint_folder(dir, iteration));
  } catch (...) {
    abandon_checkpoint(dir, iteration);
    throw;
  }
  crash_point("checkpoint_renamed");
  set_latest_iteration(dir, iteration);
}

void abandon_rank_file(const fs::path& dir, int64_t iteration, HostGroup& ranks) {
  if (ranks.size() == 1) return abandon_checkpoint(dir, iteration);
  std::error_code ignored;
  fs::remove(part_folder(dir, iteration) / file_of_rank(ranks.rank()), ignored);
}

void save_checkpoint(const fs::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, CheckpointStaging& staging,
                     HostGroup& ranks) {
  staging.backend.synchronize();
  const fs::path part = begin_checkpoint(dir, info.scalars.iteration, ranks);
  std::vector<StoredPiece> mine;
  try {
    mine = write_rank_file(
        part / file_of_rank(ranks.rank()), tensors,
        [&](const StateTensor& tensor, const Consume& consume) {
          read_through(staging, tensor, consume);
        },
        [&](int64_t /*num_bytes*/) { ranks.recorder().note_work(); });
  } catch (...) {
    abandon_rank_file(dir, info.scalars.iteration, ranks);
    throw;
  }
  const std::vector<std::string> of_ranks = ranks.gather(pieces_to_text(mine));
  if (ranks.rank() == 0) commit_checkpoint(dir, info, of_ranks);
}

void save_checkpoint(const fs::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, Backend& backend) {
  LoneStaging lone(backend, tensors);
  save_checkpoint(dir, info, tensors, lone.staging, *create_lone_host_group());
}

namespace {

// A kill underway leaves a folder that remove_leftovers() knows.
void remove_checkpoint(const fs::path& dir, int64_t iteration) {
  const fs::path removed = part_folder(dir, iteration);
  commit_rename(checkpoint_folder(dir, iteration), removed);
  fs::remove_all(removed);
}

}  // namespace

void remove_old_checkpoints(const fs::path& dir, int64_t iteration, int64_t keep_last,
                            std::optional<int64_t> keep_every, std::set<int64_t>& complete) {
  const auto completeness_of = [&](int64_t stored) {
    if (complete.contains(stored)) return Completeness::kWhole;
    const Completeness found = completeness_of_checkpoint(dir, stored);
    if (found == Completeness::kWhole) complete.insert(stored);
    return found;
  };
  int64_t num_kept = 0;
  for (const int64_t stored : stored_iterations(dir)) {  // newest first
    // Those after it are of a past that this run has left; it replaces them one by one.
    if (stored > iteration) continue;
    const fs::path folder = checkpoint_folder(dir, stored);
    if (!fs::exists(manifest_path(folder))) continue;  // no checkpoint of ours
    const bool is_multiple = keep_every && stored % *keep_every == 0;
    if (num_kept >= keep_last && is_multiple) continue;
    const Completeness completeness = completeness_of(stored);
    if (completeness == Completeness::kUnknown) continue;
    if (num_kept < keep_last && completeness == Completeness::kWhole) {
      ++num_kept;
      continue;
    }
    if (is_multiple) continue;
    complete.erase(stored);
    remove_checkpoint(dir, stored);
  }
}

void remove_after_save(const fs::path& dir, int64_t iteration, std::optional<int64_t> previous,
                       const Retention& retention, std::set<int64_t>& complete) {
  if (retention.keep_last)
    remove_old_checkpoints(dir, iteration, *retention.keep_last, retention.keep_every, complete);
  if (!retention.retain_interval || !previous || *previous < 1 || *previous >= iteration) return;
  const bool is_ours = fs::exists(manifest_path(checkpoint_folder(dir, *previous)));
  if (*previous % *retention.retain_interval != 0 && is_ours) remove_checkpoint(dir, *previous);
}

CheckpointInfo read_checkpoint_info(const fs::path& dir, int64_t iteration) {
  return manifest_of(dir, iteration).info;
}

void load_checkpoint(const fs::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, CheckpointStaging& staging,
                     HostGroup& ranks) {
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
      staging.backend.copy(tensor.tensor.as<char>() + done * element_bytes, staging.data(),
                           chunk.count * element_bytes, Stream::kCompute);
      staging.backend.synchronize();
      ranks.recorder().note_work();
    }
  }
}

void load_checkpoint(const fs::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, Backend& backend) {
  LoneStaging lone(backend, tensors);
  load_checkpoint(dir, iteration, tensors, lone.staging, *create_lone_host_group());
}

}  // namespace weft
