#include "indexed_dataset/order/blends/blend_sizes.h"

#include <cmath>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr double kOldSurplus = 1.005;

int64_t rounded_up(double value) {
  constexpr double kMost = 9.0e18;
  if (!(value < kMost)) throw UsageError("a blend's number of samples does not fit 64 bits");
  return static_cast<int64_t>(std::ceil(value));
}

std::vector<double> divided_by_plain_sum(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight / sum);
  return shares;
}

}  // namespace

std::vector<double> shares_of_weights(std::span<const double> weights, OrderKind order) {
  if (!std::isfinite(std::accumulate(weights.begin(), weights.end(), 0.0)))
    throw UsageError(
        "the weights of a blend add up to more than a number holds (1.8e308): give smaller ones");
  return rules_of(order).precedes_core ? divided_by_plain_sum(weights) : normalize_weights(weights);
}

BlendSizes blend_sizes(std::span<const double> weights, int64_t num_samples, OrderKind order,
                       double surplus) {
  if (!(surplus >= 0 && std::isfinite(surplus)))
    throw UsageError("--mid-level-dataset-surplus must be 0 or more");
  const auto wanted = static_cast<double>(num_samples);
  const OrderRules rules = rules_of(order);
  BlendSizes sizes;
  sizes.weights = shares_of_weights(weights, order);
  for (const double weight : sizes.weights) {
    const int64_t target = rounded_up(wanted * weight);
    const int64_t to_build = rules.has_old_blend_sizes
                                 ? rounded_up(wanted * weight * kOldSurplus)
                                 : rounded_up(static_cast<double>(target) * (1 + surplus));
    sizes.num_to_build.push_back(to_build);
    if (__builtin_add_overflow(sizes.size, rules.has_old_blend_sizes ? to_build : target,
                               &sizes.size))
      throw UsageError("a blend's number of samples does not fit 64 bits");
  }
  if (rules.precedes_core) sizes.size = num_samples;
  // All programs normalize once more where the index is built: the last bits can change.
  sizes.weights = normalize_weights(sizes.weights);
  return sizes;
}

void check_not_outrun(Split split, OrderKind order, double surplus,
                      const std::vector<int64_t>& counts, const std::vector<GptDataset>& datasets) {
  for (size_t i = 0; i < datasets.size(); ++i) {
    const int64_t needed = counts[i], available = datasets[i].num_samples();
    if (needed <= available) continue;
    std::ostringstream surplus_text;
    surplus_text << surplus;
    throw UsageError(
        "the " + std::string(split_name(split)) + " blend needs " + std::to_string(needed) +
        " samples of dataset " + std::to_string(i) + ", " + datasets[i].reader().prefix().string() +
        ", but only " + std::to_string(available) +
        " were built for its weight; give it a larger weight or leave it out" +
        (rules_of(order).has_old_blend_sizes ? ""
                                             : ", or raise --mid-level-dataset-surplus (" +
                                                   surplus_text.str() + " now) five- to tenfold"));
  }
}

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
