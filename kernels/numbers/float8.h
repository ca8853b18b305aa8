// The two 8-bit floating-point formats of fp8 products, in host memory. [Micikevicius et al. 2022,
// arXiv:2209.05433; OCP 8-bit Floating Point Specification 1.0]
//
//   e4m3  4 bits of exponent, 3 of mantissa, up to 448; no infinity, and one NaN
//   e5m2  5 bits of exponent, 2 of mantissa, up to 57344; infinities and NaN as in IEEE
//
// Conversion rounds to the nearest, ties to even. What is too large becomes the largest number, as
// it does on GPUs, and NaN stays NaN.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft {

struct Float8Format {
  int mantissa_bits;
  int min_exponent;  // smallest exponent of normal numbers
  float largest;
};
constexpr Float8Format float8_format(DType dtype) {
  return dtype == DType::kFloat8E5M2 ? Float8Format{2, -14, 57344.0F} : Float8Format{3, -6, 448.0F};
}

inline uint8_t to_float8(float value, DType dtype) {
  const Float8Format format = float8_format(dtype);
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
  if (std::isnan(value)) return sign | 0x7f;
  const float magnitude = std::min(std::fabs(value), format.largest);
  const int exponent = std::max(static_cast<int>(std::bit_cast<uint32_t>(magnitude) >> 23) - 127,
                                format.min_exponent);
  // The unit in the last place of numbers with this exponent; dividing by it is exact.
  const float unit =
      std::bit_cast<float>(static_cast<uint32_t>(exponent - format.mantissa_bits + 127) << 23);
  // Numbers in the order of their bits are those of the smallest exponent, subnormal ones first,
  // then those of the next one; a number that is rounded up to the next exponent gets its bits as
  // well.
  const int count = static_cast<int>(std::nearbyint(magnitude / unit));
  return sign |
         static_cast<uint8_t>(((exponent - format.min_exponent) << format.mantissa_bits) + count);
}

inline float from_float8(uint8_t bits, DType dtype) {
  const Float8Format format = float8_format(dtype);
  const int magnitude = bits & 0x7f;
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (dtype == DType::kFloat8E5M2 ? magnitude > 0x7c : magnitude == 0x7f) return NAN;
  if (dtype == DType::kFloat8E5M2 && magnitude == 0x7c) return sign * INFINITY;
  const int hidden = 1 << format.mantissa_bits;
  const int exponent = std::max((magnitude >> format.mantissa_bits) - 1, 0);
  const int count = magnitude - exponent * hidden;
  return sign * std::ldexp(static_cast<float>(count),
                           exponent + format.min_exponent - format.mantissa_bits);
}

// Returns the factor that brings `amax` to the largest number of the format over 2^margin, and 1
// where there is no such factor: an amax of 0, or one that is not finite. It is at most 2^126, so
// that its inverse is a normal number.
inline float fp8_scale(float amax, DType dtype, int64_t margin = 0) {
  if (!(amax > 0.0F) || !std::isfinite(amax)) return 1.0F;
  const float largest = std::ldexp(float8_format(dtype).largest, -static_cast<int>(margin));
  return std::min(largest / amax, 0x1p126F);
}

}  // namespace weft
