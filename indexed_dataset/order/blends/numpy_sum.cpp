#include "indexed_dataset/order/blends/numpy_sum.h"

#include <array>

namespace weft {

double numpy_sum(std::span<const double> values) {
  constexpr size_t kLanes = 8, kBlock = 128;
  if (values.size() < kLanes) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (values.size() > kBlock) {
    const size_t half = values.size() / 2 / kLanes * kLanes;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  std::array<double, kLanes> s{};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; ++i)
    s[i % kLanes] = i < kLanes ? values[i] : s[i % kLanes] + values[i];
  double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  for (const double value : values.subspan(whole)) sum += value;
  return sum;
}

std::vector<double> normalize_weights(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> normalized;
  normalized.reserve(weights.size());
  for (const double weight : weights) normalized.push_back(weight / sum);
  return normalized;
}

}  // namespace weft
