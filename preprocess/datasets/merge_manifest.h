// The manifest of a merged dataset: which parts, whose vocabulary, and the sums of their counts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/pair/merge_pairs.h"
#include "preprocess/datasets/merge.h"

namespace weft {

// The text of the file. Throws std::runtime_error if the manifests of two parts name different
// vocabularies, or if one cannot be understood.
std::string merged_manifest(const MergeConfig& config, const PairMerge& pairs);

// What is said of the dataset whose manifest is the file at `path` if it was not merged of the
// parts that `manifest` names; "" if it was, with other options or by another version.
std::string difference_from_merged(const std::filesystem::path& path, const std::string& manifest);

// A note if some of the parts are shards (preprocess --shard I/N), and not 0/N, 1/N, ... up to all
// N of them one behind the other; else "". `s*` of a shell puts 10 before 2.
std::string shards_out_of_order(const std::vector<std::filesystem::path>& prefixes);

}  // namespace weft
