// Rounding numbers to fp8, and the largest of their magnitudes.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/numbers/float8.h"
#include "kernels/numbers/tensor.h"

namespace weft::cpu {

// Returns the bits of |value|. Their order is that of the numbers, and NaN is above infinity.
inline uint32_t magnitude_bits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffU; }

// Raises amax (1) to a magnitude.
inline void raise_amax(const Tensor& amax, uint32_t magnitude) {
  float& kept = *amax.as<float>();
  if (magnitude > magnitude_bits(kept)) kept = std::bit_cast<float>(magnitude);
}

// Returns value * scale in fp8. The product with 0 makes NaN of what is infinite, and changes
// nothing else.
inline uint8_t quantized(float value, float scale, DType format) {
  return to_float8(value * 0.0F + value * scale, format);
}

}  // namespace weft::cpu
