// The manifest of a merged dataset: which parts, whose vocabulary, and the sums of their counts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/merge_pairs.h"
#include "preprocess/merge.h"

namespace weft {

// The text of the file. Throws std::runtime_error if the manifests of two parts name different
// vocabularies, or if one cannot be understood.
std::string merged_manifest(const MergeConfig& config, const PairMerge& pairs);

// Whether the file at `path` is `manifest`, but for the options and the version.
bool is_merged_of_the_same(const std::filesystem::path& path, const std::string& manifest);

// A note if some of the parts are shards (preprocess --shard I/N), and not 0/N, 1/N, ... up to all
// N of them one behind the other; else "". `s*` of a shell puts 10 before 2.
std::string shards_out_of_order(const std::vector<std::filesystem::path>& prefixes);

}  // namespace weft
