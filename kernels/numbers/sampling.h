// The numbers behind a choice among tokens, equal on every device (SampleTokens,
// kernels/operations/generation.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/numbers/philox.h"

namespace weft {

// Logits as integers in the same order, so that thresholds are found bit by bit. NaN comes last.
WEFT_HOST_DEVICE inline uint32_t ordered_bits(float value) {
  union {
    float number;
    uint32_t bits;
  } as = {value};
  if (value != value) return 0;
  return (as.bits & 0x80000000u) != 0 ? ~as.bits : as.bits | 0x80000000u;
}

constexpr int kWeightBits = 40;

WEFT_HOST_DEVICE inline uint64_t sampling_weight(float logit, float largest, float temperature) {
  if (logit != logit) return 0;
  return static_cast<uint64_t>(expf((logit - largest) / temperature) *
                               static_cast<float>(uint64_t{1} << kWeightBits));
}

// Returns the sum of weights that top_p keeps, at least.
WEFT_HOST_DEVICE inline uint64_t nucleus_weight(float top_p, uint64_t total) {
  const auto weight =
      static_cast<uint64_t>(static_cast<double>(top_p) * static_cast<double>(total));
  return weight > 0 ? weight : 1;
}

// Returns the part of `total` that the random word of a token's place chooses, less than `total`.
WEFT_HOST_DEVICE inline uint64_t sampling_target(uint64_t total, uint64_t seed, int32_t stream,
                                                 int64_t counter) {
  const uint32_t word =
      philox_word(seed, static_cast<uint32_t>(stream), static_cast<uint64_t>(counter));
  return (total >> 32) * word + ((total & 0xffffffffu) * word >> 32);
}

}  // namespace weft
