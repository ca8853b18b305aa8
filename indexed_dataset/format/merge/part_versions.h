// Finds out whether the parts of a merge were made of the same inputs, and by the same program.
// Shards of a corpus that was written anew between two jobs would otherwise become one dataset, in
// which some lines are missing and others come twice.
#pragma once

#include <string>
#include <vector>

#include "indexed_dataset/format/merge/merge_pairs.h"

namespace weft {

// Compares what the manifests and source maps of shards of one run (preprocess --shard I/N) say of
// each input. Shards of several runs may come in any order: each joins the run that has no such
// shard yet and whose inputs, sizes, versions and options are most like its own. Throws
// std::runtime_error that names both parts and the input if its size or its ETag differs.
//
// Returns notes on what may be meant, one of each kind for a run: files of the same size with
// another time (nodes or mirrors may have copies), shards of other options; and for the merge,
// parts that other versions of weft-data made.
std::vector<std::string> compare_part_versions(const PairMerge& pairs);

}  // namespace weft
