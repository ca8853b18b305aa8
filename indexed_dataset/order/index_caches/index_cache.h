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
// from which data they were built. Only a look at a run of Megatron takes them as they are.
//
// Writers of one index wait for each other (LockFile), and the second one finds the files of the
// first. A writer removes the document index first and gives it its name last, so that what a
// killed one leaves is incomplete for Megatron, too. The arrays are synced before they are renamed,
// and their names before the stamp gets its own. The stamp is not synced: what a power cut leaves
// of one is no JSON, and counts as absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "indexed_dataset/order/index_caches/cache_names.h"
#include "indexed_dataset/order/samples/gpt_dataset.h"

namespace weft {

struct CachedIndex {
  HeldIndex index;
  bool was_there = false;         // it was mapped and not built
  bool is_from_megatron = false;  // it was mapped from files that Weft has not written
};

// Returns nothing if the files are not there or do not fit the dataset; writes nothing.
std::optional<CachedIndex> find_cached_index(const std::filesystem::path& folder,
                                             const IndexDescription& description,
                                             const DatasetReader& reader,
                                             const GptIndexOptions& options);

// Returns an index whose files Megatron wrote under exactly these names, as they are: a run has
// read what they say, whatever the data are now. Nothing if there are none. Throws
// std::runtime_error where their sizes do not fit the dataset, or a shuffle index has a sample
// twice; other numbers that do not fit are found where they are used (GptDataset).
std::optional<CachedIndex> find_megatron_index(const std::filesystem::path& folder,
                                               const IndexDescription& description,
                                               const DatasetReader& reader,
                                               const GptIndexOptions& options);

// Returns the stamp of an index that was built of these.
std::string index_stamp(const DatasetReader& reader, const GptIndexOptions& options,
                        const GptIndexView& index);

}  // namespace weft
