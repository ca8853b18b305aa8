// Adam's moments in bf16 are rounded at random: up with the probability of the part that is cut
// off, so that the mean is exact. To the nearest, the second moment would stand still, because one
// step changes it by 1 - beta2, less than half of bf16's spacing. [Gupta et al. 2015,
// arXiv:1502.02551]
//
// The random numbers are a function of the seed, the step and the element's place in the slices of
// a tensor-parallel rank, so that ranks which hold the same elements draw the same, and so does a
// resumed run. Another tensor-parallel size draws others. Four neighbours share a block of
// Philox4x32-7; the low half of word i is for the first moment of element i, the high half for its
// second.
#pragma once

#include <cstdint>

#include "kernels/numbers/philox.h"

namespace weft {

// Returns the numbers for elements 4 * group to 4 * group + 3 of a block of kOptimizerBlock
// elements. The key differs from that of dropout and initial weights.
WEFT_HOST_DEVICE inline PhiloxBlock moment_random_numbers(uint64_t seed, int64_t step,
                                                          int32_t block_number, int group) {
  constexpr uint64_t kKeyOfMoments = 0x6d6f6d656e747321U;
  constexpr int kGroupsPerBlock = 256;
  return philox<7>(
      seed ^ kKeyOfMoments, static_cast<uint64_t>(step),
      static_cast<uint64_t>(block_number) * kGroupsPerBlock + static_cast<uint64_t>(group));
}

// Returns the bits of the bf16 number for those of an fp32 number. `random` is below 2^16.
WEFT_HOST_DEVICE inline uint16_t round_at_random(uint32_t bits, uint32_t random) {
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40U : (bits + random) >> 16);
}

}  // namespace weft
