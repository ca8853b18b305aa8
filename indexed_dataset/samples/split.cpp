#include "indexed_dataset/samples/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft {
namespace {

constexpr std::string_view kSeparators = ",/;: \t[]()";
constexpr size_t kNumSplits = 3;

[[noreturn]] void throw_bad_split(std::string_view split, const std::string& why) {
  throw std::invalid_argument("--split '" + std::string(split) + "': " + why +
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

std::array<std::optional<SequenceRange>, 3> split_ranges(std::string_view split,
                                                         int64_t num_sequences) {
  const std::vector<double> weights = parse_weights(split);
  // NumPy's sum adds fewer than eight terms from left to right.
  const double sum = weights[0] + weights[1] + weights[2];
  if (sum <= 0) throw_bad_split(split, "the weights add up to 0");
  if (!std::isfinite(sum)) throw_bad_split(split, "the sum of the weights is not finite");

  // The order of these operations is Megatron's: sums of quotients, not quotients of sums. The last
  // sum may differ from 1 in the last bit.
  const auto count = static_cast<double>(num_sequences);
  std::array<std::optional<SequenceRange>, kNumSplits> ranges;
  double begin = 0;
  for (size_t i = 0; i < kNumSplits; ++i) {
    const double end = begin + weights[i] / sum;
    if (end > begin) {
      ranges[i] = SequenceRange{round_half_even(begin * count), round_half_even(end * count)};
    }
    begin = end;
  }
  return ranges;
}

}  // namespace weft
