// Keeps indexes in files, which all processes of a machine map. They have the names and bytes of the
// program whose order is built (cache_names.h), and a stamp beside them, NAME-weft.json or
// NAME_weft.json, which is written last:
//
//   {"version": 1, "idx_bytes": ..., "idx_mtime_ns": ..., "lengths_xxh3": "...", "first": ...,
//    "end": ..., "order": "core", "seed": ..., "sequence_length": ..., "tokens_per_epoch": ...,
//    "epochs": ..., "samples": ..., "samples_before_last_epoch": ... or null}
//
// An index follows from the lengths of the sequences and these numbers alone. Files are used if
// their stamp says that they were built from the same; the lengths are hashed again only if size or
// time of the .idx changed. Files without a stamp (Megatron's own, or of a writer that was killed)
// are replaced: nothing in them tells from which data they were built.
//
// Writers of one index wait for each other (LockFile), and the second one finds the files of the first.
// The arrays are synced before they are renamed, and before the stamp is written. The stamp itself is not: what
// a power cut leaves of it is no JSON, and counts as absent.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/index_caches/blending_index.h"
#include "indexed_dataset/index_caches/cache_names.h"
#include "indexed_dataset/samples/gpt_dataset.h"
#include "indexed_dataset/storage/lock_file.h"

namespace weft {

struct CachedIndex {
  HeldIndex index;
  bool was_there = false;  // it was mapped and not built
};

// Opens many indexes in one folder of caches. Those that it writes wait for the disk together, because a wait
// for a few small files is as long as one for many. Not thread-safe: each thread has a writer of its own.
// Until the indexes that it has written are complete it holds their locks; it waits for the lock of another
// writer only when it holds none.
class IndexCacheWriter {
 public:
  // `num_writers`: as many threads of this process have one at the same time.
  IndexCacheWriter(std::filesystem::path folder, int num_writers);
  // Removes what finish() was not called for.
  ~IndexCacheWriter();
  IndexCacheWriter(const IndexCacheWriter&) = delete;

  // Maps an index that is there. Else builds it, writes it and returns nothing: map_written() returns it after
  // finish(). The reader must live until then. Throws as
  // build_gpt_index(), and std::system_error if the folder or its files cannot be written.
  std::optional<CachedIndex> find_or_write(const IndexDescription& description,
                                           const DatasetReader& reader,
                                           const GptIndexOptions& options);
  // Completes what was written. Throws std::system_error.
  void finish();
  // Maps an index that was written and finished. Throws std::runtime_error if another process has put one of
  // other data in its place meanwhile.
  CachedIndex map_written(const IndexDescription& description, const DatasetReader& reader,
                          const GptIndexOptions& options) const;

 private:
  struct Written;
  void write(const CacheNames& names, std::unique_ptr<LockFile> lock, const GptIndex& index,
             const nlohmann::ordered_json& stamp);
  std::unique_ptr<LockFile> lock(const CacheNames& names);

  const std::filesystem::path folder_;
  const size_t max_indexes_;
  const int num_sync_threads_;
  std::vector<Written> written_;
  int64_t num_bytes_ = 0;
};

// Returns nothing if the files are not there or do not fit the dataset; writes nothing.
std::optional<CachedIndex> find_cached_index(const std::filesystem::path& folder,
                                             const IndexDescription& description,
                                             const DatasetReader& reader,
                                             const GptIndexOptions& options);

// Maps the arrays of these names, which are of this plan. Throws std::runtime_error where they have other
// shapes, std::logic_error where they have other types.
HeldIndex map_index(const std::filesystem::path& folder, const CacheNames& names,
                    const EpochPlan& plan, const GptIndexOptions& options);

struct CachedBlend {
  HeldBlendingIndex index;
  std::vector<int64_t> counts;  // how many samples each dataset gives
  bool was_there = false;
};

// Maps the arrays of a blending index of this size; nothing is counted. Throws as map_index().
CachedBlend map_blend(const std::filesystem::path& folder, const BlendCacheNames& names,
                      int64_t size);

// The same for the blending index of these weights and this size, which follows from them alone.
CachedBlend open_cached_blend(const std::filesystem::path& folder,
                              const nlohmann::ordered_json& description, Split split,
                              const std::vector<double>& weights, int64_t size);

// Returns nothing if the files are not there; writes nothing.
std::optional<CachedBlend> find_cached_blend(const std::filesystem::path& folder,
                                             const nlohmann::ordered_json& description, Split split,
                                             int64_t size);

}  // namespace weft
