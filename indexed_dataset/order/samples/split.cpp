#include "indexed_dataset/order/samples/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr std::string_view kSeparators = ",/;: \t[]()";
constexpr size_t kNumSplits = 3;

[[noreturn]] void throw_bad_split(std::string_view split, const std::string& why) {
  throw UsageError("--split '" + std::string(split) + "': " + why +
                   "; give weights of train, validation and test, such as 949,50,1");
}

double parse_weight(std::string_view split, std::string_view word) {
  double weight = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), weight, std::chars_format::fixed);
  if (word.front() == '-') throw_bad_split(split, "negative weight " + std::string(word));
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(weight)) {
    throw_bad_split(split, std::string(word) + " is not a number");
  }
  return weight;
}

// Megatron takes every run of digits and dots and ignores what is between them. Here something else
// than a separator between them is an error: it would be ignored silently (1e-3 would be read as 1
// and 3).
std::vector<double> parse_weights(std::string_view split) {
  std::vector<double> weights;
  for (size_t begin = 0; begin < split.size();) {
    const size_t end = std::min(split.find_first_of(kSeparators, begin), split.size());
    if (end > begin) weights.push_back(parse_weight(split, split.substr(begin, end - begin)));
    begin = end + 1;
  }
  if (weights.empty()) throw_bad_split(split, "has no number");
  if (weights.size() > kNumSplits) {
    throw_bad_split(split, "has " + std::to_string(weights.size()) + " numbers, more than three");
  }
  weights.resize(kNumSplits, 0.0);
  return weights;
}

// Python's round(): halves to even, which is the default rounding mode.
int64_t round_half_even(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

double sum_of_weights(std::string_view split, const std::vector<double>& weights) {
  // NumPy's sum adds fewer than eight terms from left to right, and so does Python's before 3.12.
  const double sum = weights[0] + weights[1] + weights[2];
  if (sum <= 0) throw_bad_split(split, "the weights add up to 0");
  if (!std::isfinite(sum)) throw_bad_split(split, "the sum of the weights is not finite");
  return sum;
}

// Shares are rounded one by one; what they are too many or too few moves all bounds but the first.
std::array<std::optional<SequenceRange>, 3> ranges_of_rounded_shares(std::string_view split,
                                                                     int64_t num_sequences) {
  const std::vector<double> weights = parse_weights(split);
  const double sum = sum_of_weights(split, weights);
  std::array<int64_t, kNumSplits + 1> bounds{};
  for (size_t i = 0; i < kNumSplits; ++i) {
    bounds[i + 1] =
        bounds[i] + round_half_even(weights[i] / sum * static_cast<double>(num_sequences));
  }
  const int64_t excess = bounds[kNumSplits] - num_sequences;
  std::array<std::optional<SequenceRange>, kNumSplits> ranges;
  for (size_t i = 0; i < kNumSplits; ++i) {
    bounds[i + 1] -= excess;
    if (weights[i] <= 0 && bounds[i + 1] <= bounds[i]) continue;
    if (bounds[i] < 0 && bounds[i + 1] > bounds[i]) {
      throw_bad_split(split, "the rule of older programs would begin at sequence " +
                                 std::to_string(bounds[i]) + " of " +
                                 std::to_string(num_sequences));
    }
    ranges[i] = SequenceRange{bounds[i], std::max(bounds[i], bounds[i + 1])};
  }
  return ranges;
}

}  // namespace

std::string_view split_name(Split split) {
  switch (split) {
    case Split::kTrain:
      return "training";
    case Split::kValid:
      return "validation";
    case Split::kTest:
      return "test";
  }
  return "";
}

std::string_view short_split_name(Split split) {
  constexpr std::string_view kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<size_t>(split)];
}

bool is_same_split(std::string_view a, std::string_view b) {
  return a == b || parse_weights(a) == parse_weights(b);
}

SplitShares split_shares(std::string_view split) {
  const std::vector<double> weights = parse_weights(split);
  const double sum = sum_of_weights(split, weights);
  // The order of these operations is Megatron's: sums of quotients, not quotients of sums. The last
  // sum may differ from 1 in the last bit.
  SplitShares shares;
  double begin = 0;
  for (size_t i = 0; i < kNumSplits; ++i) {
    const double end = begin + weights[i] / sum;
    if (end > begin) shares[i] = {begin, end};
    begin = end;
  }
  return shares;
}

SequenceRange range_of_share(double begin, double end, int64_t num_sequences) {
  const auto count = static_cast<double>(num_sequences);
  return {round_half_even(begin * count), round_half_even(end * count)};
}

std::array<std::optional<SequenceRange>, 3> split_ranges(std::string_view split,
                                                         int64_t num_sequences, OrderKind order) {
  if (rules_of(order).precedes_core) return ranges_of_rounded_shares(split, num_sequences);
  const SplitShares shares = split_shares(split);
  std::array<std::optional<SequenceRange>, kNumSplits> ranges;
  for (size_t i = 0; i < kNumSplits; ++i) {
    if (shares[i]) ranges[i] = range_of_share(shares[i]->first, shares[i]->second, num_sequences);
  }
  return ranges;
}

}  // namespace weft
