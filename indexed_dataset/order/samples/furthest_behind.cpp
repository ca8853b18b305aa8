#include "indexed_dataset/order/samples/furthest_behind.h"

#include "indexed_dataset/base/process/vector_clones.h"

namespace weft {
namespace {

using Doubles __attribute__((vector_size(kLanes * sizeof(double)))) = double;
using Integers __attribute__((vector_size(kLanes * sizeof(int64_t)))) = int64_t;
// Loads and stores of columns, which are aligned as single values are.
using Column __attribute__((vector_size(kLanes * sizeof(double)), aligned(8), may_alias)) = double;

}  // namespace

WEFT_VECTOR_CLONES void compute_behind(const double* weights, const double* counts, size_t size,
                                       double k, double* behind) {
  for (size_t i = 0; i < size; ++i) behind[i] = weights[i] * k - counts[i];
}

WEFT_VECTOR_CLONES int64_t count_from(const double* values, size_t size, double least) {
  Integers counts{};
  for (size_t i = 0; i < size; i += kLanes)
    counts -= *reinterpret_cast<const Column*>(values + i) >= least;  // true is -1
  int64_t count = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) count += counts[lane];
  return count;
}

WEFT_VECTOR_CLONES double least_weight_from(const double* weights, const double* behind,
                                            size_t size, double least) {
  const Doubles ones = Doubles{} + 1.0;
  Doubles lowest = ones;
  for (size_t i = 0; i < size; i += kLanes) {
    const Doubles weight = *reinterpret_cast<const Column*>(behind + i) >= least
                               ? Doubles(*reinterpret_cast<const Column*>(weights + i))
                               : ones;
    lowest = weight < lowest ? weight : lowest;
  }
  double least_weight = 1;
  for (size_t lane = 0; lane < kLanes; ++lane)
    least_weight = lowest[lane] < least_weight ? lowest[lane] : least_weight;
  return least_weight;
}

WEFT_VECTOR_CLONES void flag_within_reach(const double* weights, const double* behind, size_t size,
                                          double least_weight, double steps, double least,
                                          uint8_t* flags) {
  for (size_t i = 0; i < size; ++i) {
    const double gain = (weights[i] - least_weight) * steps;
    flags[i] = behind[i] + (gain > 0 ? gain : 0) >= least ? 1 : 0;
  }
}

// The loop has no jump that depends on the position of the largest one, as no processor could
// predict it.
WEFT_VECTOR_CLONES Furthest find_furthest(const double* weights, const double* counts, size_t size,
                                          double k, double* behind) {
  Doubles largest = Doubles{} + kNever;
  for (size_t i = 0; i < size; i += kLanes) {
    const Doubles value = *reinterpret_cast<const Column*>(weights + i) * k -
                          *reinterpret_cast<const Column*>(counts + i);
    *reinterpret_cast<Column*>(behind + i) = value;
    largest = value > largest ? value : largest;
  }
  // Values are compared in pairs, because each comparison of a chain would wait for the one before.
  const auto larger = [](double a, double b) { return a > b ? a : b; };
  const double most =
      larger(larger(larger(largest[0], largest[1]), larger(largest[2], largest[3])),
             larger(larger(largest[4], largest[5]), larger(largest[6], largest[7])));
  Integers counted{}, positions{}, position{0, 1, 2, 3, 4, 5, 6, 7};
  for (size_t i = 0; i < size; i += kLanes) {
    const Integers is_most = *reinterpret_cast<const Column*>(behind + i) == most;  // true is -1
    counted -= is_most;
    positions += is_most & position;
    position += static_cast<int64_t>(kLanes);
  }
  Furthest result{most, 0, 0};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.count += counted[lane];
    result.sum_of_positions += positions[lane];
  }
  return result;
}

}  // namespace weft
