// Indexes in files, which all processes of a machine map. They have the names and bytes of the
// program whose order is built (cache_names.h), and a stamp beside them, NAME-weft.json or
// NAME_weft.json, which is written last:
//
//   {"version": 1, "idx_bytes": ..., "idx_mtime_ns": ..., "lengths_xxh3": "...", "first": ...,
//    "end": ..., "order": "core", "seed": ..., "sequence_length": ..., "tokens_per_epoch": ...,
//    "epochs": ..., "samples": ..., "samples_before_last_epoch": ... or null,
//    "arrays_xxh3": ["...", "...", "..."]}
//
// An index follows from the lengths of the sequences and these numbers alone. Files are used if
// their stamp says that they were built from the same; the lengths are hashed again only if size or
// time of the .idx changed. The arrays are hashed when they are mapped, so that a damaged one
// counts as absent. Files without a stamp (Megatron's own) are replaced: nothing in them tells
// from which data they were built.
//
// Writers of one index wait for each other (LockFile), and the second one finds the files of the
// first. Before the first of its arrays gets its name, a stamp {"begun": true} stands there, so
// that what a killed writer leaves is known as Weft's, and counts as absent. The arrays are synced
// before they are renamed, as is the name of that first stamp, and all of them before the stamp is
// replaced by the last one. The contents of stamps are not synced: what a power cut leaves of one
// is no JSON, and counts as begun.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "indexed_dataset/order/index_caches/cache_names.h"
#include "indexed_dataset/order/samples/gpt_dataset.h"

namespace weft {

struct CachedIndex {
  HeldIndex index;
  bool was_there = false;  // it was mapped and not built
  bool is_from_megatron =
      false;  // it was mapped from files that Weft has not written (megatron_cache.h)
};

// Returns nothing if the files are not there or do not fit the dataset; writes nothing.
std::optional<CachedIndex> find_cached_index(const std::filesystem::path& folder,
                                             const IndexDescription& description,
                                             const DatasetReader& reader,
                                             const GptIndexOptions& options);

// Returns the stamp of an index that was built of these.
std::string index_stamp(const DatasetReader& reader, const GptIndexOptions& options,
                        const GptIndexView& index);

// Maps the arrays of these names, which are of this plan. Throws std::runtime_error where they have
// other shapes or types.
HeldIndex map_index(const std::filesystem::path& folder, const CacheNames& names,
                    const EpochPlan& plan, const GptIndexOptions& options);

}  // namespace weft
