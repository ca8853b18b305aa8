// The datasets of a run, as Megatron's options name them [Megatron-LM megatron/training/utils.py,
// get_blend_and_blend_per_split; core/datasets/utils.py, get_blend_from_list; bigscience's fork,
// megatron/data/data_samplers.py and arguments.py, weighted split paths].
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/samples/split.h"

namespace weft {

// The values of the options, as they were given.
struct DataPaths {
  std::vector<std::string> data_path =
      {};  // PREFIX, or PREFIX PREFIX ..., or WEIGHT PREFIX WEIGHT ...
  std::vector<std::string> train_data_path = {}, valid_data_path = {}, test_data_path = {};
  std::string data_args_path = {};  // a file with the values of --data-path
  std::string per_split_data_args_path =
      {};  // JSON: {"train": [...], "valid": [...], "test": [...]}
  // "NAME: WEIGHT BEGIN:END PREFIX, WEIGHT BEGIN:END PREFIX"; several for validation and test.
  std::vector<std::string> train_weighted_split_paths = {}, valid_weighted_split_paths = {},
                           test_weighted_split_paths = {};

  bool empty() const;
};

// Datasets that are drawn from together.
struct Blend {
  std::string name;  // of a bigscience group, else empty
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // one for each prefix, as given; empty if none were
  // The share [first, second) of each dataset's sequences that belongs to the split; empty: what
  // --split says.
  std::vector<std::pair<double, double>> shares;

  bool operator==(const Blend&) const = default;
};

struct SplitBlends {
  // The blends of train, validation and test. Only validation and test can have several, which are
  // evaluated apart.
  std::array<std::vector<Blend>, 3> blends;
  bool has_own_paths = false;  // each split has datasets of its own, and --split means nothing

  const std::vector<Blend>& of(Split split) const { return blends[static_cast<size_t>(split)]; }
  // All prefixes, each once, in the order in which they are named.
  std::vector<std::string> prefixes() const;
};

// Reads the files that are named. Throws std::invalid_argument in words of the options, for
// datasets named in two ways, or lists that are none; std::system_error if a file cannot be read.
SplitBlends resolve_data_paths(const DataPaths& paths);

// One list: prefixes, or pairs of a weight and a prefix. `option` is for messages.
Blend parse_blend(const std::vector<std::string>& values, const std::string& option);

// "NAME: WEIGHT BEGIN:END PREFIX, ..."
Blend parse_weighted_split(const std::string& value, const std::string& option);

}  // namespace weft
