// Makes the manifest of a merged dataset: its parts, their vocabulary, and the sums of their
// counts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/pair/merge_pairs.h"
#include "preprocess/datasets/merge.h"

namespace weft {

// Returns the text of the file. Throws std::runtime_error if the manifests of two parts name
// different vocabularies, or if one cannot be understood.
std::string merged_manifest(const MergeConfig& config, const PairMerge& pairs);

// Compares the manifest at `path` with `manifest`. Returns "" if both name the same parts, even
// with other options or by another version; else says how the dataset at `path` was made instead.
std::string difference_from_merged(const std::filesystem::path& path, const std::string& manifest);

// Returns a note if some of the parts are shards (preprocess --shard I/N) and they are not all N of
// them in order, 0/N, 1/N and so on; else "". A shell puts 10 before 2 for `s*`.
std::string shards_out_of_order(const std::vector<std::filesystem::path>& prefixes);

}  // namespace weft
