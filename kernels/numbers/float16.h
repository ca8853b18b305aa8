// IEEE binary16 numbers in host memory. Conversion rounds to the nearest, ties to even; what is too
// large becomes infinite, and NaN stays NaN.
//
// Both conversions compute all cases and choose by masks, so that loops over them become vector
// code on any processor: neither F16C nor an ARM extension is needed, and all give the same bits.
// [after F. Giesen, "Half to float done quic", 2012, and its comments]
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weft {

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) : bits(bits_of(value)) {}
  explicit operator float() const { return value_of(bits); }

 private:
  static constexpr uint32_t kRebias = (127U - 15U) << 23;  // fp16's exponent to fp32's

  // Returns all ones if `condition` holds, else 0. Compilers make a branch of a choice between two
  // values, and then no vector code.
  static uint32_t mask(bool condition) { return 0U - static_cast<uint32_t>(condition); }
  static uint32_t choose(uint32_t mask, uint32_t a, uint32_t b) { return b ^ ((a ^ b) & mask); }

  static uint16_t bits_of(float value) {
    constexpr uint32_t kInfinity = 0x7f800000U;        // fp32's
    constexpr uint32_t kTooLarge = 0x47800000U;        // 2^16
    constexpr uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t any = word & 0x7fffffffU;
    const uint32_t magnitude = std::min(any, kTooLarge);
    // Rounding carries into the exponent where it must: from 65,520 on the result is infinite.
    const uint32_t normal = (magnitude - kRebias + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    // The unit in the last place of 0.5F is the smallest subnormal number, so this sum rounds to
    // it.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const uint32_t number = choose(mask(magnitude < kSmallestNormal), subnormal, normal);
    const uint32_t quiet_nan = mask(any > kInfinity) & 0x200U;
    return static_cast<uint16_t>(number | quiet_nan | ((word >> 16) & 0x8000U));
  }

  static float value_of(uint16_t half) {
    constexpr uint32_t kExponent = 0x0f800000U;  // all of its bits are set in infinity and NaN
    const uint32_t magnitude = (half & 0x7fffU) << 13;
    const uint32_t exponent = magnitude & kExponent;
    const uint32_t normal = magnitude + kRebias + (mask(exponent == kExponent) & kRebias);
    // The sum with 2^-14 gives these digits their place; then it is taken off again.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + 0x38800000U) - 0x1p-14F);
    const uint32_t number = choose(mask(exponent == 0), subnormal, normal);
    return std::bit_cast<float>(number | static_cast<uint32_t>(half & 0x8000U) << 16);
  }
};

}  // namespace weft
