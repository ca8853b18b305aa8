// Splits the sequences of a dataset for training, validation and test, as Megatron's --split, by
// the rule of Megatron-Core 0.5 and later (core/datasets/blended_megatron_dataset_config.py) or
// that of the older programs (Megatron-LM v2, data/dataset_utils.py, get_train_valid_test_split_).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "indexed_dataset/order/samples/order_kind.h"

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

// The words of Megatron's file names and descriptions: train, valid, test.
std::string_view short_split_name(Split split);

// Shares of train, validation and test: [first, second) of all sequences, none for a weight of 0.
// The numbers are those that Megatron-Core computes and writes into the names of its caches.
using SplitShares = std::array<std::optional<std::pair<double, double>>, 3>;
SplitShares split_shares(std::string_view split);

// Returns true for two spellings of the same weights: "969,30,1" and "969, 30, 1". Throws as
// split_ranges().
bool is_same_split(std::string_view a, std::string_view b);

// Ranges of train, valid and test, in this order, for weights such as "949,50,1" (one to three
// numbers, separated by commas, slashes, colons or spaces; missing ones are 0). A weight of 0 gives
// no range; a small weight of a small dataset can give an empty one. Throws UsageError,
// also where the older programs' rule would begin before the first sequence.
std::array<std::optional<SequenceRange>, 3> split_ranges(std::string_view split,
                                                         int64_t num_sequences,
                                                         OrderKind order = OrderKind::kCore);

// The range of a share, bounds rounded half to even.
SequenceRange range_of_share(double begin, double end, int64_t num_sequences);

}  // namespace weft
