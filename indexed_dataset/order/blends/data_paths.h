// The datasets of a run, as Megatron's options name them [Megatron-LM megatron/training/utils.py,
// get_blend_and_blend_per_split; core/datasets/utils.py, get_blend_from_list; bigscience's fork,
// megatron/data/data_samplers.py and arguments.py, weighted split paths].
#pragma once

#include <array>
#include <string>
#include <vector>

#include "indexed_dataset/order/blends/blend.h"
#include "indexed_dataset/order/samples/split.h"

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
  // Files of such groups: each of them in double quotes, with spaces or ends of lines between them.
  std::string train_weighted_split_paths_path = {}, valid_weighted_split_paths_path = {},
              test_weighted_split_paths_path = {};
  std::string blend_schedule = {};  // JSON: how the training blend changes (blend_schedule.h)

  bool empty() const;
};

struct SplitBlends {
  // The blends of train, validation and test. Only validation and test can have several, which are
  // evaluated apart.
  std::array<std::vector<Blend>, 3> blends;
  bool has_own_paths = false;  // each split has datasets of its own, and --split means nothing
  std::vector<BlendChange> changes;  // of training, in the order of the file

  const std::vector<Blend>& of(Split split) const { return blends[static_cast<size_t>(split)]; }
  // All prefixes, each once, in the order in which they are named.
  std::vector<std::string> prefixes() const;
};

// Reads the files that are named. Throws UsageError in words of the options, for
// datasets named in two ways, or lists that are none; std::system_error if a file cannot be read.
SplitBlends resolve_data_paths(const DataPaths& paths);

}  // namespace weft
