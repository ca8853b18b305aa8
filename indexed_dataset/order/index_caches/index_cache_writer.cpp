#include "indexed_dataset/order/index_caches/index_cache_writer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/order/index_caches/cache_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Writes a file that is neither synced nor renamed yet.
fs::path write_part(const fs::path& path, const std::string& text) {
  fs::path part = path.string() + ".part";
  OutputFile file(part);
  file.append(text.data(), text.size());
  file.close();
  return part;
}

// Locks and threads that all writers of a process have together. 256 locks are few of the 1,024
// files that a process may open where nobody has raised that limit.
constexpr int kMaxLocks = 256, kMaxSyncThreads = 32;
// More than this is written out while other writers may wait for a lock.
constexpr int64_t kMaxUnsyncedBytes = 64 << 20;

}  // namespace

struct IndexCacheWriter::Written {
  std::unique_ptr<LockFile> lock;
  fs::path stamp;
  std::string stamp_text;
  std::vector<fs::path> parts;  // NAME.part of each NAME; that of the document index is the last
};

IndexCacheWriter::IndexCacheWriter(fs::path folder, int num_writers)
    : folder_(std::move(folder)),
      max_indexes_(static_cast<size_t>(std::clamp(kMaxLocks / num_writers, 1, 64))),
      num_sync_threads_(std::max(1, kMaxSyncThreads / num_writers)) {}

IndexCacheWriter::~IndexCacheWriter() {
  std::error_code ignored;
  for (const Written& index : written_) {
    for (const fs::path& part : index.parts) fs::remove(part, ignored);
  }
}

std::unique_ptr<LockFile> IndexCacheWriter::lock(const CacheNames& names) {
  const fs::path path = folder_ / (names.stamp + ".lock");
  if (!written_.empty()) {
    try {
      return std::make_unique<LockFile>(path);
    } catch (const LockedByAnotherRun&) {
      finish();  // two writers that hold locks could wait for each other
    }
  }
  return std::make_unique<LockFile>(path, kCacheLockPatience);
}

std::optional<CachedIndex> IndexCacheWriter::find_or_write(const IndexDescription& description,
                                                           const DatasetReader& reader,
                                                           const GptIndexOptions& options) {
  if (auto found = find_cached_index(folder_, description, reader, options)) return found;
  const CacheNames names = cache_names(description);
  create_cache_folder(folder_);
  std::unique_ptr<LockFile> held = lock(names);
  if (auto found = find_cached_index(folder_, description, reader, options)) return found;
  const GptIndex index = build_gpt_index(reader.lengths(), options);
  write(names, std::move(held), index, index_stamp(reader, options, index.view()));
  if (written_.size() >= max_indexes_ || num_bytes_ >= kMaxUnsyncedBytes) finish();
  return std::nullopt;
}

void IndexCacheWriter::write(const CacheNames& names, std::unique_ptr<LockFile> lock,
                             const GptIndex& index, std::string stamp) {
  Written& written = written_.emplace_back();
  written.lock = std::move(lock);
  written.stamp = folder_ / names.stamp;
  written.stamp_text = std::move(stamp);
  // A part is noted before it is written: where the disk is full, what there is of it is removed,
  // too.
  const auto write = [&](const std::string& name, const auto& write_to) {
    const fs::path& part = written.parts.emplace_back(folder_ / (name + ".part"));
    write_to(folder_ / name);
    num_bytes_ += static_cast<int64_t>(fs::file_size(part));
  };
  if (!names.description.empty())
    write(names.description, [&](const fs::path& path) { write_part(path, names.text); });
  write(names.sample_index, [&](const fs::path& path) {
    std::visit([&](auto rows) { write_npy_part(path, rows, 2); }, index.view().sample_index);
  });
  write(names.shuffle_index, [&](const fs::path& path) {
    std::visit([&](auto order) { write_npy_part(path, order); }, index.view().shuffle_index);
  });
  write(names.document_index, [&](const fs::path& path) {
    write_npy_part(path, std::span<const int32_t>(index.document_index));
  });
}

void IndexCacheWriter::finish() {
  if (written_.empty()) return;
  std::vector<fs::path> all_parts, parts, last_parts;
  for (const Written& index : written_) {
    all_parts.insert(all_parts.end(), index.parts.begin(), index.parts.end());
    parts.insert(parts.end(), index.parts.begin(), index.parts.end() - 1);
    last_parts.push_back(index.parts.back());
  }
  const auto final_name = [](fs::path part) { return part.replace_extension(); };
  const auto rename_all = [&](const std::vector<fs::path>& of) {
    for (const fs::path& part : of) rename_unsynced(part, final_name(part));
    sync_folder(folder_);
  };
  sync_files(all_parts, num_sync_threads_);
  crash_point("index-parts");
  for (const fs::path& part : last_parts) fs::remove(final_name(part));
  sync_folder(folder_);
  crash_point("index-begun");
  rename_all(parts);
  rename_all(last_parts);
  crash_point("index-arrays");
  for (const Written& index : written_)
    rename_unsynced(write_part(index.stamp, index.stamp_text), index.stamp);
  written_.clear();
  num_bytes_ = 0;
}

CachedIndex IndexCacheWriter::map_written(const IndexDescription& description,
                                          const DatasetReader& reader,
                                          const GptIndexOptions& options) const {
  auto found = find_cached_index(folder_, description, reader, options);
  if (!found) {
    throw std::runtime_error(
        folder_.string() + ": the index of " + reader.prefix().string() +
        " was written, and another run has put one of other data in its place: "
        "was the dataset replaced meanwhile? Run the same command again");
  }
  found->was_there = false;
  return std::move(*found);
}

}  // namespace weft
