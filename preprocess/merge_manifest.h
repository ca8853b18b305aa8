// The manifest of a merged dataset: which parts, whose vocabulary, and the sums of their counts.
#pragma once

#include <filesystem>
#include <string>

#include "indexed_dataset/merge_pairs.h"
#include "preprocess/merge.h"

namespace weft {

// The text of the file. Throws std::runtime_error if the manifests of two parts name different
// vocabularies, or if one cannot be understood.
std::string merged_manifest(const MergeConfig& config, const PairMerge& pairs);

}  // namespace weft
