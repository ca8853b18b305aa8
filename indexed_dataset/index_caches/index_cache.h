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
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "indexed_dataset/index_caches/blending_index.h"
#include "indexed_dataset/index_caches/cache_names.h"
#include "indexed_dataset/samples/gpt_dataset.h"

namespace weft {

struct CachedIndex {
  HeldIndex index;
  bool was_there = false;  // it was mapped and not built
};

// Maps the index of a dataset's sequences, or builds, writes and maps it. Throws as
// build_gpt_index(), and std::system_error if the folder or its files cannot be written.
CachedIndex open_cached_index(const std::filesystem::path& folder,
                              const IndexDescription& description, const DatasetReader& reader,
                              const GptIndexOptions& options);

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
