#include "trainer/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"
#include "kernels/bfloat16.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStateFile = "state_00000.safetensors";  // rank 0's; each rank has its own
constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kTrackerFile = "latest_checkpointed_iteration.txt";

// A chunk is large enough for copies from the device at full rate and small enough to pin anywhere.
constexpr int64_t kChunkBytes = 64 << 20;

// Pinned memory through which one save or load copies.
class StagingBuffer {
 public:
  StagingBuffer(Backend& backend, const std::vector<StateTensor>& tensors) : backend_(backend) {
    int64_t largest_bytes = 256;
    for (const StateTensor& t : tensors)
      largest_bytes = std::max(largest_bytes, t.tensor.num_bytes());
    data_ = backend.allocate(std::min(kChunkBytes, largest_bytes), Memory::kPinnedHost);
  }
  ~StagingBuffer() { backend_.release(data_, Memory::kPinnedHost); }
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  Backend& backend_;
  void* data_ = nullptr;
};

// Calls consume(chunk, bytes) for the tensor's bytes, front to back.
template <typename Consume>
void for_each_chunk(const Tensor& tensor, Backend& backend, StagingBuffer& staging,
                    Consume consume) {
  const char* source = tensor.as<char>();
  for (int64_t done = 0; done < tensor.num_bytes(); done += kChunkBytes) {
    const int64_t bytes = std::min(kChunkBytes, tensor.num_bytes() - done);
    backend.copy(staging.data(), source + done, bytes, Stream::kCompute);
    backend.synchronize();
    consume(staging.data(), bytes);
  }
}

std::vector<int64_t> slice_shape(const StateTensor& tensor) {
  std::vector<int64_t> shape = tensor.global_shape;
  if (tensor.split_dim >= 0)
    shape[static_cast<size_t>(tensor.split_dim)] = tensor.end - tensor.begin;
  return shape;
}

// Puts `part` in the place of `final_folder` in one step. A folder that stood there is removed
// afterwards.
void commit_folder(const fs::path& part, const fs::path& final_folder) {
  if (!fs::exists(final_folder)) return commit_rename(part, final_folder);
  // With RENAME_EXCHANGE (2) the name stands for a whole checkpoint at every instant.
  if (syscall(SYS_renameat2, AT_FDCWD, part.c_str(), AT_FDCWD, final_folder.c_str(), 2U) != 0) {
    if (errno != EINVAL && errno != ENOSYS) {
      throw std::system_error(errno, std::generic_category(),
                              "cannot replace checkpoint " + final_folder.string());
    }
    // This file system cannot exchange names. Until the rename there is no such folder.
    fs::remove_all(final_folder);
    return commit_rename(part, final_folder);
  }
  // The replaced folder gets a name of its own, so that the exchange is on disk before it is
  // removed.
  const fs::path replaced = final_folder.string() + ".replaced";
  commit_rename(part, replaced);
  fs::remove_all(replaced);
}

// Removes what killed runs left behind: parts of checkpoints and replaced ones. No other process
// may be saving into `dir`.
void remove_leftovers(const fs::path& dir) {
  if (!fs::exists(dir)) return;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = name.ends_with(".part") || name.ends_with(".replaced");
    if (name.starts_with("iter_") && unfinished) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover);
}

void write_state_file(const fs::path& path, const std::vector<StateTensor>& tensors,
                      Backend& backend, Manifest& manifest) {
  std::vector<SafetensorsEntry> entries;
  for (const StateTensor& tensor : tensors) {
    entries.push_back({tensor.name, std::string(safetensors_dtype(tensor.tensor.dtype())),
                       slice_shape(tensor), 0, 0});
  }
  OutputFile file(path);
  const std::string header = safetensors_header(entries, {{"format", "pt"}});
  file.append(header.data(), header.size());
  StagingBuffer staging(backend, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    for_each_chunk(tensors[i].tensor, backend, staging, [&](const char* chunk, int64_t bytes) {
      XXH3_64bits_update(&hash, chunk, static_cast<size_t>(bytes));
      file.append(chunk, static_cast<size_t>(bytes));
    });
    manifest.tensors.push_back({tensors[i].name, path.filename().string(), entries[i].dtype,
                                tensors[i].global_shape, tensors[i].split_dim, tensors[i].begin,
                                tensors[i].end, XXH3_64bits_digest(&hash)});
  }
  file.sync();
  file.close();
}

// The stored tensor from which a wanted one is read.
struct Source {
  const ManifestTensor* stored;
  bool converts;  // the stored type differs from the wanted one
};

// "model/X" may come from its fp32 master and the other way round, so that weights load into runs
// of either precision.
Source find_source(const Manifest& manifest, const StateTensor& wanted, const fs::path& folder) {
  const std::string_view dtype = safetensors_dtype(wanted.tensor.dtype());
  const ManifestTensor* same_name = manifest.find(wanted.name);
  if (same_name != nullptr && same_name->dtype == dtype) return {same_name, false};
  constexpr std::string_view kModel = "model/", kMaster = "optimizer/master/";
  const std::string_view name = wanted.name;
  std::string other;
  if (name.starts_with(kModel))
    other = std::string(kMaster) + std::string(name.substr(kModel.size()));
  if (name.starts_with(kMaster))
    other = std::string(kModel) + std::string(name.substr(kMaster.size()));
  const ManifestTensor* source = other.empty() ? nullptr : manifest.find(other);
  if (source == nullptr) source = same_name;
  if (source == nullptr) {
    throw std::runtime_error(folder.string() + " holds no tensor " + wanted.name +
                             (name.starts_with("optimizer/")
                                  ? "; load its weights alone with --finetune or --no-load-optim"
                                  : ""));
  }
  return {source, source->dtype != dtype};
}

std::string printable(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

void check_fits(const ManifestTensor& stored, const StateTensor& wanted, const fs::path& folder) {
  if (stored.global_shape != wanted.global_shape) {
    throw std::runtime_error(folder.string() + ": tensor " + stored.name + " has shape " +
                             printable(stored.global_shape) + ", this run needs " +
                             printable(wanted.global_shape));
  }
  if (stored.split_dim != wanted.split_dim || stored.begin != wanted.begin ||
      stored.end != wanted.end) {
    throw std::runtime_error(
        folder.string() + ": tensor " + stored.name +
        " was saved by another tensor-parallel layout; load it with the layout it was saved by");
  }
}

void verify_checksum(const ManifestTensor& stored, std::span<const std::byte> bytes,
                     const fs::path& path) {
  const uint64_t found = XXH3_64bits(bytes.data(), bytes.size());
  if (found != stored.xxh3) {
    throw ChecksumMismatch(path.string() + ": the bytes of tensor " + stored.name +
                           " are not those that were saved (checksum differs); "
                           "load another iteration with --ckpt-step");
  }
}

// Converts `count` elements from fp32 to bf16 or back; `type` is the wanted one.
void convert(char* to, DType type, const std::byte* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (type == DType::kFloat32) {
      BFloat16 value;
      std::memcpy(&value, from + 2 * i, 2);
      const auto wide = static_cast<float>(value);
      std::memcpy(to + 4 * i, &wide, 4);
    } else {
      float value;
      std::memcpy(&value, from + 4 * i, 4);
      const BFloat16 narrow(value);
      std::memcpy(to + 2 * i, &narrow, 2);
    }
  }
}

void copy_to_device(const StateTensor& wanted, std::span<const std::byte> bytes, bool converts,
                    Backend& backend, StagingBuffer& staging) {
  const int64_t out_size = size_bytes(wanted.tensor.dtype());
  const int64_t in_size = converts ? 6 - out_size : out_size;  // 2 <-> 4
  const int64_t chunk_elements = kChunkBytes / 4;
  for (int64_t done = 0; done < wanted.tensor.num_elements(); done += chunk_elements) {
    const int64_t count = std::min(chunk_elements, wanted.tensor.num_elements() - done);
    const std::byte* from = bytes.data() + done * in_size;
    if (converts) {
      convert(staging.data(), wanted.tensor.dtype(), from, count);
    } else {
      std::memcpy(staging.data(), from, static_cast<size_t>(count * out_size));
    }
    backend.copy(wanted.tensor.as<char>() + done * out_size, staging.data(), count * out_size,
                 Stream::kCompute);
    backend.synchronize();
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& dir, int64_t iteration) {
  char name[32];
  std::snprintf(name, sizeof name, "iter_%07lld", static_cast<long long>(iteration));
  return dir / name;
}

std::optional<int64_t> latest_iteration(const fs::path& dir) {
  const fs::path tracker = dir / kTrackerFile;
  if (!fs::exists(tracker)) return std::nullopt;
  const std::string text = read_file(tracker);
  const bool is_number = !text.empty() &&
                         text.find_first_not_of("0123456789\r\n ") == std::string::npos &&
                         text[0] != '\n';
  if (!is_number || text.size() > 18) {
    throw std::runtime_error(
        tracker.string() +
        ": holds no iteration number; write the number of an iter_ folder into it");
  }
  return std::stoll(text);
}

void save_checkpoint(const fs::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, Backend& backend) {
  backend.synchronize();
  const int64_t iteration = info.scalars.iteration;
  const fs::path folder = checkpoint_folder(dir, iteration);
  const fs::path part = folder.string() + ".part";
  remove_leftovers(dir);
  fs::create_directories(part);
  try {
    Manifest manifest;
    manifest.info = info;
    write_state_file(part / kStateFile, tensors, backend, manifest);
    write_file_atomically(part / kManifestFile, to_json(manifest));
    commit_folder(part, folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(part, ignored);  // half a checkpoint would keep a full disk full
    throw;
  }
  write_file_atomically(dir / kTrackerFile, std::to_string(iteration) + "\n");
}

namespace {

Manifest manifest_of(const fs::path& dir, int64_t iteration) {
  const fs::path folder = checkpoint_folder(dir, iteration);
  if (!fs::exists(folder / kManifestFile)) {
    throw std::runtime_error("no checkpoint of iteration " + std::to_string(iteration) + ": " +
                             (folder / kManifestFile).string() +
                             " does not exist; choose one of the iter_ folders in " + dir.string() +
                             " with --ckpt-step");
  }
  return read_manifest(folder / kManifestFile);
}

}  // namespace

CheckpointInfo read_checkpoint_info(const fs::path& dir, int64_t iteration) {
  return manifest_of(dir, iteration).info;
}

void load_checkpoint(const fs::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, Backend& backend) {
  const fs::path folder = checkpoint_folder(dir, iteration);
  const Manifest manifest = manifest_of(dir, iteration);
  std::map<std::string, SafetensorsFile> files;
  StagingBuffer staging(backend, tensors);
  for (const StateTensor& wanted : tensors) {
    const Source source = find_source(manifest, wanted, folder);
    check_fits(*source.stored, wanted, folder);
    const fs::path path = folder / source.stored->file;
    const SafetensorsFile& file = files.try_emplace(source.stored->file, path).first->second;
    const SafetensorsEntry* entry = file.find(source.stored->name);
    if (entry == nullptr || entry->dtype != source.stored->dtype ||
        entry->shape != slice_shape(wanted)) {
      throw ChecksumMismatch(path.string() + ": tensor " + source.stored->name +
                             " is not what the manifest says it is");
    }
    verify_checksum(*source.stored, file.bytes(*entry), path);
    if (source.converts && source.stored->dtype != "F32" && source.stored->dtype != "BF16") {
      throw std::runtime_error(path.string() + ": tensor " + source.stored->name + " has type " +
                               source.stored->dtype);
    }
    copy_to_device(wanted, file.bytes(*entry), source.converts, backend, staging);
  }
}

}  // namespace weft
