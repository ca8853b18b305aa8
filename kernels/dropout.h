// A drop probability as an integer threshold and a scale, equal on every device.
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace weft {

// An element is dropped when its Philox word is below this threshold, p * 2^32 rounded up. The
// result is exact because p has 24 bits. 0 <= p < 1.
WEFT_HOST_DEVICE inline uint32_t dropout_threshold(float p) {
  const double scaled = static_cast<double>(p) * 4294967296.0;
  const uint32_t floor = static_cast<uint32_t>(scaled);
  return floor + (static_cast<double>(floor) < scaled ? 1u : 0u);
}

// Kept elements are multiplied by this factor.
WEFT_HOST_DEVICE inline float dropout_scale(float p) { return 1.0F / (1.0F - p); }

}  // namespace weft
