// The fp32 master of a bf16 weight, kept as the weight itself and what it lacks of the master.
//
// The weight is the master rounded to the nearest, ties to even, so it is the master's high half,
// or the number after it. The low half of the master decides between the two: below 0x8000 rounding
// went down, above it up. At 0x8000, a tie, it went to the even one, and one more bit is its
// direction. So a master takes 16 bits and a tie bit beside its weight, and comes back to the last
// bit; only a NaN may become another. 16 bits cannot do it: an even weight is the nearest of 65,537
// masters.
//
// In memory a block of kOptimizerBlock weights has its low halves one after the other, then the tie
// bits, element e in bit e % 8 of byte e / 8.
#pragma once

#include <cstdint>

#include "kernels/numbers/philox.h"

namespace weft {

// The optimizer works on whole blocks of parameters: ranges of them are multiples of this.
constexpr int64_t kOptimizerBlock = 1024;

constexpr int64_t kTieBitsOffset = 2 * kOptimizerBlock;  // their place in a block
constexpr int64_t kRemainderBlockBytes = kTieBitsOffset + kOptimizerBlock / 8;

// Returns the bytes that `num_elements` weights lack, a multiple of kOptimizerBlock.
constexpr int64_t remainder_bytes(int64_t num_elements) {
  return num_elements / kOptimizerBlock * kRemainderBlockBytes;
}

// The tie bit: the master lies between two bf16 numbers, and the even one is the larger in
// magnitude.
WEFT_HOST_DEVICE constexpr bool is_tie_upwards(uint32_t master) {
  return (master & 0x1ffffU) == 0x18000U;
}

// Returns the bits of the master. `weight` holds those of the bf16 number.
WEFT_HOST_DEVICE constexpr uint32_t joined_master(uint32_t weight, uint32_t low_half,
                                                  bool tie_upwards) {
  const uint32_t steps_down = low_half > 0x8000U || tie_upwards ? 1 : 0;
  return (weight - steps_down) << 16 | low_half;
}

}  // namespace weft
