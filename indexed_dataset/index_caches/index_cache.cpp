#include "indexed_dataset/index_caches/index_cache.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/soundness/xxh3.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/npy_file.h"
#include "indexed_dataset/storage/unsynced_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Building takes a minute at most; a process that waits longer names the process that holds the lock.
constexpr std::chrono::minutes kPatience{10};

// Size and time of the .idx that a reader has mapped, whatever has its name now: the index is of these bytes.
Json idx_facts(const DatasetReader& reader) {
  return {{"idx_bytes", reader.idx_bytes().size()}, {"idx_mtime_ns", reader.idx_modified_ns()}};
}

std::string hash_lengths(const DatasetReader& reader) {
  const SequenceLengths lengths = reader.lengths();
  return std::to_string(
      XXH3_64bits(lengths.address(0), static_cast<size_t>(lengths.size()) * sizeof(int32_t)));
}

// Returns the request that an index was built for; the data is described apart.
Json request_facts(const GptIndexOptions& options) {
  // They differ in blends only: the index of one dataset is the same, and so is its name.
  const OrderKind order = options.order == OrderKind::kCore010 ? OrderKind::kCore : options.order;
  return {{"version", 1},
          {"first", options.range.begin},
          {"end", options.range.end},
          {"asked", options.num_samples ? Json(*options.num_samples) : Json()},
          {"order", name_of(order)},
          {"seed", options.seed},
          {"sequence_length", options.sequence_length}};
}

bool has_all(const Json& stamp, const Json& facts) {
  for (const auto& [key, value] : facts.items()) {
    if (!stamp.contains(key) || stamp[key] != value) return false;
  }
  return true;
}

Json plan_facts(const EpochPlan& plan) {
  return {{"tokens_per_epoch", plan.num_tokens_per_epoch},
          {"epochs", plan.num_epochs},
          {"samples", plan.num_samples},
          {"samples_before_last_epoch",
           plan.separate_last_epoch ? Json(plan.num_samples_before_last_epoch) : Json()}};
}

EpochPlan plan_of(const Json& stamp) {
  EpochPlan plan;
  stamp.at("tokens_per_epoch").get_to(plan.num_tokens_per_epoch);
  stamp.at("epochs").get_to(plan.num_epochs);
  stamp.at("samples").get_to(plan.num_samples);
  plan.separate_last_epoch = !stamp.at("samples_before_last_epoch").is_null();
  if (plan.separate_last_epoch)
    stamp.at("samples_before_last_epoch").get_to(plan.num_samples_before_last_epoch);
  return plan;
}

// The text of a stamp, or "" where there is none.
std::string find_stamp(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return "";
    throw;
  }
}

// Files that another process replaces meanwhile, and damaged ones, count as absent. Other errors,
// such as a disk that fails, are thrown.
template <typename Open>
auto open_or_nothing(Open open) -> decltype(open()) {
  try {
    return open();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
  } catch (const std::runtime_error&) {
  } catch (const Json::exception&) {
  }
  return {};
}

struct MappedIndex {
  NpyArray document_index, sample_index, shuffle_index;
};

std::vector<int64_t> shape(int64_t rows) { return {rows}; }

}  // namespace

HeldIndex map_index(const fs::path& folder, const CacheNames& names, const EpochPlan& plan,
                    const GptIndexOptions& options) {
  const auto mapped = std::make_shared<const MappedIndex>(
      MappedIndex{NpyArray(folder / names.document_index), NpyArray(folder / names.sample_index),
                  NpyArray(folder / names.shuffle_index)});
  const int64_t num_positions = plan.num_epochs * (options.range.end - options.range.begin);
  HeldIndex held{.view = {.plan = plan,
                          .document_index = mapped->document_index.values<int32_t>(),
                          .sample_index = {},
                          .shuffle_index = {}},
                 .memory = mapped};
  if (has_wide_rows(plan, num_positions, options.order)) {
    held.view.sample_index = mapped->sample_index.values<int64_t>();
  } else {
    held.view.sample_index = mapped->sample_index.values<int32_t>();
  }
  if (has_wide_shuffle(plan)) {
    held.view.shuffle_index = mapped->shuffle_index.values<int64_t>();
  } else {
    held.view.shuffle_index = mapped->shuffle_index.values<uint32_t>();
  }
  if (mapped->document_index.shape() != shape(num_positions) ||
      mapped->sample_index.shape() != std::vector<int64_t>{plan.num_samples + 1, 2} ||
      mapped->shuffle_index.shape() != shape(plan.num_samples)) {
    throw std::runtime_error("its arrays do not have " + std::to_string(num_positions) +
                             " documents and " + std::to_string(plan.num_samples) + " samples");
  }
  return held;
}

namespace {

std::optional<HeldIndex> find_index(const fs::path& folder, const CacheNames& names,
                                    const DatasetReader& reader, const GptIndexOptions& options) {
  return open_or_nothing([&]() -> std::optional<HeldIndex> {
    const std::string text = find_stamp(folder / names.stamp);
    if (text.empty()) return std::nullopt;
    const Json stamp = parse_json<Json>(text);
    if (!has_all(stamp, request_facts(options))) return std::nullopt;
    if (!has_all(stamp, idx_facts(reader)) && stamp.at("lengths_xxh3") != hash_lengths(reader))
      return std::nullopt;
    HeldIndex held = map_index(folder, names, plan_of(stamp), options);
    // A writer removes the stamp before it replaces an array.
    if (find_stamp(folder / names.stamp) != text) return std::nullopt;
    return held;
  });
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw std::system_error(error, "--data-cache-path " + folder.string() + ": cannot create it");
}

struct MappedBlend {
  NpyArray dataset_index, sample_index;
};

// Writes a file that is neither synced nor renamed yet.
fs::path write_part(const fs::path& path, const std::string& text) {
  fs::path part = path.string() + ".part";
  OutputFile file(part);
  file.append(text.data(), text.size());
  file.close();
  return part;
}

// Locks and threads that all writers of a process have together. 256 locks are few of the 1,024 files that a
// process may open where nobody has raised that limit.
constexpr int kMaxLocks = 256, kMaxSyncThreads = 32;
// More than this is written out while other writers may wait for a lock.
constexpr int64_t kMaxUnsyncedBytes = 64 << 20;

}  // namespace

struct IndexCacheWriter::Written {
  std::unique_ptr<LockFile> lock;
  fs::path stamp;
  std::string stamp_text;
  std::vector<fs::path> parts;  // NAME.part of each NAME
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
  return std::make_unique<LockFile>(path, kPatience);
}

std::optional<CachedIndex> IndexCacheWriter::find_or_write(const IndexDescription& description,
                                                           const DatasetReader& reader,
                                                           const GptIndexOptions& options) {
  const CacheNames names = cache_names(description);
  if (auto found = find_index(folder_, names, reader, options))
    return CachedIndex{std::move(*found), true};
  create_folder(folder_);
  std::unique_ptr<LockFile> held = lock(names);
  if (auto found = find_index(folder_, names, reader, options))
    return CachedIndex{std::move(*found), true};
  Json stamp = request_facts(options);
  stamp.update(idx_facts(reader));
  stamp["lengths_xxh3"] = hash_lengths(reader);
  const GptIndex index = build_gpt_index(reader.lengths(), options);
  stamp.update(plan_facts(index.plan));
  write(names, std::move(held), index, stamp);
  if (written_.size() >= max_indexes_ || num_bytes_ >= kMaxUnsyncedBytes) finish();
  return std::nullopt;
}

void IndexCacheWriter::write(const CacheNames& names, std::unique_ptr<LockFile> lock,
                             const GptIndex& index, const Json& stamp) {
  Written& written = written_.emplace_back();
  written.lock = std::move(lock);
  written.stamp = folder_ / names.stamp;
  written.stamp_text = stamp.dump() + "\n";
  remove_file(written.stamp);
  const auto note = [&](fs::path part) {
    num_bytes_ += static_cast<int64_t>(fs::file_size(part));
    written.parts.push_back(std::move(part));
  };
  if (!names.description.empty()) note(write_part(folder_ / names.description, names.text));
  note(write_npy_part(folder_ / names.document_index,
                      std::span<const int32_t>(index.document_index)));
  std::visit([&](auto rows) { note(write_npy_part(folder_ / names.sample_index, rows, 2)); },
             index.view().sample_index);
  std::visit([&](auto order) { note(write_npy_part(folder_ / names.shuffle_index, order)); },
             index.view().shuffle_index);
}

void IndexCacheWriter::finish() {
  if (written_.empty()) return;
  std::vector<fs::path> parts;
  for (const Written& index : written_)
    parts.insert(parts.end(), index.parts.begin(), index.parts.end());
  sync_files(parts, num_sync_threads_);
  crash_point("index-parts");
  for (const fs::path& part : parts) rename_unsynced(part, fs::path(part).replace_extension());
  sync_folder(folder_);
  crash_point("index-arrays");
  for (const Written& index : written_)
    rename_unsynced(write_part(index.stamp, index.stamp_text), index.stamp);
  written_.clear();
  num_bytes_ = 0;
}

CachedIndex IndexCacheWriter::map_written(const IndexDescription& description,
                                          const DatasetReader& reader,
                                          const GptIndexOptions& options) const {
  auto found = find_index(folder_, cache_names(description), reader, options);
  if (!found) {
    throw std::runtime_error(
        folder_.string() + ": the index of " + reader.prefix().string() +
        " was written, and another run has put one of other data in its place: "
        "was the dataset replaced meanwhile? Run the same command again");
  }
  return {std::move(*found), false};
}

CachedBlend map_blend(const fs::path& folder, const BlendCacheNames& names, int64_t size) {
  const auto mapped = std::make_shared<const MappedBlend>(MappedBlend{
      NpyArray(folder / names.dataset_index), NpyArray(folder / names.dataset_sample_index)});
  if (mapped->dataset_index.shape() != shape(size) || mapped->sample_index.shape() != shape(size))
    throw std::runtime_error("its arrays do not have " + std::to_string(size) + " samples");
  return {.index = {.view = {.dataset_index = mapped->dataset_index.values<int16_t>(),
                             .sample_index = mapped->sample_index.values<int64_t>()},
                    .memory = mapped},
          .counts = {},
          .was_there = true};
}

namespace {

std::optional<CachedBlend> find_blend(const fs::path& folder, const BlendCacheNames& names,
                                      int64_t size) {
  return open_or_nothing([&]() -> std::optional<CachedBlend> {
    const std::string text = find_stamp(folder / names.stamp);
    if (text.empty()) return std::nullopt;
    CachedBlend blend = map_blend(folder, names, size);
    parse_json<Json>(text).at("counts").get_to(blend.counts);
    return blend;
  });
}

}  // namespace

std::optional<CachedIndex> find_cached_index(const fs::path& folder,
                                             const IndexDescription& description,
                                             const DatasetReader& reader,
                                             const GptIndexOptions& options) {
  auto found = find_index(folder, cache_names(description), reader, options);
  if (!found) return std::nullopt;
  return CachedIndex{std::move(*found), true};
}

std::optional<CachedBlend> find_cached_blend(const fs::path& folder, const Json& description,
                                             Split split, int64_t size) {
  return find_blend(folder, blend_cache_names(description, split), size);
}

CachedBlend open_cached_blend(const fs::path& folder, const Json& description, Split split,
                              const std::vector<double>& weights, int64_t size) {
  const BlendCacheNames names = blend_cache_names(description, split);
  if (auto found = find_blend(folder, names, size)) return std::move(*found);
  create_folder(folder);
  const LockFile lock(folder / (names.stamp + ".lock"), kPatience);
  if (auto found = find_blend(folder, names, size)) return std::move(*found);
  remove_file(folder / names.stamp);
  std::vector<int64_t> counts;
  {
    const BlendingIndex index = build_blending_index(weights, size);
    write_file_atomically(folder / names.description, names.text);
    std::visit([&](auto of) { write_npy(folder / names.dataset_index, of); },
               index.view().dataset_index);
    write_npy(folder / names.dataset_sample_index, index.view().sample_index);
    counts = index.counts;
  }
  write_file_atomically(folder / names.stamp,
                        Json{{"version", 1}, {"counts", counts}}.dump() + "\n");
  auto written = find_blend(folder, names, size);
  if (!written)
    throw std::runtime_error(folder.string() + ": the blend that was just written is not there");
  written->was_there = false;
  return std::move(*written);
}

}  // namespace weft
