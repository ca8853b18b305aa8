// Loops over fp32 rows that the compiler turns into vector code, once per generation of x86-64.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// A function with this attribute is compiled for AVX-512, AVX2 and any x86-64, and the loader takes
// the best one. The binary stays portable; results may differ in the last bit between generations
// of processors, never between runs on one machine. ThreadSanitizer's run time is not yet loaded
// when the loader chooses, so the attribute is empty there.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define WEFT_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEFT_VECTOR_CLONES
#endif

namespace weft::cpu {

// Returns e^x to 2 units in the last place for x in [-87, 88]. It is constant outside and NaN for
// NaN. std::exp would keep loops scalar. [Cody-Waite reduction; polynomial of Cephes, expf.c]
inline float fast_exp(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  // 1.5 * 2^23: adding it rounds to an integer, which the low bits then hold.
  const float shift = 12582912.0F;
  const float shifted = x * 1.44269504088896341F + shift;
  const float n = shifted - shift;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127U) << 23;
  return p * std::bit_cast<float>(power);
}

}  // namespace weft::cpu
