// Tells how far a number lies above what was usual before it, counted in robust standard
// deviations: medians instead of means, so that an earlier jump does not hide the next one.
#pragma once

#include <vector>

namespace weft {

struct Usual {
  double median = 0;
  // The median distance from the median, times 1.4826: the standard deviation of normally
  // distributed numbers [Rousseeuw & Croux 1993, doi:10.1080/01621459.1993.10476408].
  double deviation = 0;

  // Returns (value - median) / deviation, and infinity for a value that is not finite. A deviation
  // below 0.2 % of the median counts as that much: where all numbers before were equal, rounding is
  // no jump.
  double z_of(double value) const;
};

// Both leave out values that are not finite, and throw std::invalid_argument if none is left.
//
// Takes values in any order.
Usual usual_of(std::vector<double> values);
// Takes values one after another, which may have a trend: the median is that of the last kRecent,
// and the deviation that of differences between neighbours, over the root of 2. So a loss that
// falls is no noise.
Usual usual_after(std::vector<double> values);
inline constexpr int kRecent = 10;

}  // namespace weft
