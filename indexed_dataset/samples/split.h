// Which sequences of a dataset train, validate and test: Megatron's --split, by the rule of
// Megatron-Core 0.5 and later (core/datasets/blended_megatron_dataset_config.py).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

// Sequences [begin, end).
struct SequenceRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const SequenceRange&) const = default;
};

enum class Split { kTrain, kValid, kTest };

// The words of Megatron's log lines: training, validation, test.
std::string_view split_name(Split split);

// Ranges of train, valid and test, in this order, for weights such as "949,50,1" (one to three
// numbers, separated by commas, slashes, colons or spaces; missing ones are 0). A weight of 0 gives
// no range; a small weight of a small dataset can give an empty one. Throws std::invalid_argument.
std::array<std::optional<SequenceRange>, 3> split_ranges(std::string_view split,
                                                         int64_t num_sequences);

}  // namespace weft
