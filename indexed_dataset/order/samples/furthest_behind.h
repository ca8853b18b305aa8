// The loops of the greedy rule over columns of weights and counts. They are written for vectors of
// processors, and round as Megatron's loop does. Sizes are multiples of kLanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace weft {

// The vector code computes this many values at once.
inline constexpr size_t kLanes = 8;
// A group that is never taken is behind by minus infinity.
inline constexpr double kNever = -std::numeric_limits<double>::infinity();

// behind[i] = weights[i] * k - counts[i]
void compute_behind(const double* weights, const double* counts, size_t size, double k,
                    double* behind);

// Counts the values that are at least `least`.
int64_t count_from(const double* values, size_t size, double least);

// The least weight of those that are behind by `least` or more, and at most 1.
double least_weight_from(const double* weights, const double* behind, size_t size, double least);

// flags[i] is 1 if values[i] plus what it gains in `steps` against `least_weight` reaches `least`.
void flag_within_reach(const double* weights, const double* behind, size_t size,
                       double least_weight, double steps, double least, uint8_t* flags);

// The largest value, how often it is there, and the sum of the positions where it is: the position
// itself if it is there once.
struct Furthest {
  double behind;
  int64_t count, sum_of_positions;
};

// behind[i] as above, and the largest of them.
Furthest find_furthest(const double* weights, const double* counts, size_t size, double k,
                       double* behind);

}  // namespace weft
