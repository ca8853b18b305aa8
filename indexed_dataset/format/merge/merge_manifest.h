// Makes the manifest of a merged dataset: its parts, their vocabulary, their inputs, and the sums
// of their counts.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/format/merge/merge_pairs.h"

namespace weft {

struct MergedManifest {
  std::string text;  // of the file
  // They name merges that may not be meant: of parts whose documents end with other tokens, or of
  // shards (preprocess --shard I/N) that are not in order, 0/N, 1/N and so on. A shell puts 10
  // before 2 for `s*`.
  std::vector<std::string> notes;
};

// `version` and `options` are those of the program; `drop_list_hash` is that of the list of
// documents that are left out, "" without one. The .bin of a part without .checksums is read once;
// `check` is called often meanwhile, from any thread, and what it throws ends it. Throws
// std::runtime_error if the manifests of two parts name different vocabularies, or if one cannot be
// understood.
MergedManifest merged_manifest(const PairMerge& pairs, const std::string& version,
                               const std::vector<std::pair<std::string, std::string>>& options,
                               const std::string& drop_list_hash, int num_threads,
                               const std::function<void()>& check);

// Compares the manifest at `path` with `manifest`. Returns "" if both name the same parts, even
// with other options or by another version; else says how the dataset at `path` was made instead.
std::string difference_from_merged(const std::filesystem::path& path, const std::string& manifest);

}  // namespace weft
