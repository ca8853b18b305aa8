#include "preprocess/inspect/losses/jump.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace weft {
namespace {

// The mean of the two in the middle for an even number.
double median_of(std::vector<double>& values) {
  const size_t middle = values.size() / 2;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(values.begin(), at, values.end());
  if (values.size() % 2 == 1) return *at;
  return (*at + *std::max_element(values.begin(), at)) / 2;
}

}  // namespace

double Usual::z_of(double value) const {
  if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
  constexpr double kSmallestShare = 2e-3;
  const double unit =
      std::max({deviation, kSmallestShare * std::fabs(median), std::numeric_limits<double>::min()});
  return (value - median) / unit;
}

Usual usual_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) throw std::invalid_argument("the usual value of no values");
  Usual usual;
  usual.median = median_of(values);
  for (double& value : values) value = std::fabs(value - usual.median);
  usual.deviation = 1.4826 * median_of(values);
  return usual;
}

Usual usual_after(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  const auto num_recent = std::min<std::ptrdiff_t>(kRecent, std::ssize(values));
  Usual usual = usual_of({values.end() - num_recent, values.end()});
  std::vector<double> steps;
  for (size_t i = 1; i < values.size(); ++i) steps.push_back(std::fabs(values[i] - values[i - 1]));
  usual.deviation = steps.empty() ? 0 : 1.4826 * median_of(steps) / std::sqrt(2.0);
  return usual;
}

}  // namespace weft
