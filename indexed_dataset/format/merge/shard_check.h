// Shards (preprocess --shard I/N) of a corpus that was written anew between two jobs would become
// one dataset in which some lines are missing and others come twice.
#pragma once

#include "indexed_dataset/format/merge/merge_pairs.h"

namespace weft {

// Checks that the shards among the parts make whole runs: those whose manifests say the same of
// options, inputs and their versions are one run, which must have each of its shards once. Parts
// that are no shards are not looked at. Throws std::runtime_error that names what differs, is
// missing, or is there twice.
void check_shards(const PairMerge& pairs);

}  // namespace weft
