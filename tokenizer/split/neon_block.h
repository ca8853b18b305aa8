// 64 bytes in four NEON registers, and masks with one bit for each of them. For files that are
// compiled for aarch64 only; all its processors have NEON.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace weft {

struct NeonBlock {
  uint8x16_t quarters[4];
};

inline NeonBlock load_neon_block(const void* block) {
  const auto* const bytes = static_cast<const uint8_t*>(block);
  return {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
}

// Bit i says whether classify(the quarters) has 0xFF rather than 0 for byte i. NEON has no
// instruction for this: each byte keeps the bit of its place among eight, and eight are added up
// in three steps of pairs (Lemire, "ARM NEON programming: quick reference", as in simdjson).
template <typename Classify>
inline uint64_t neon_mask(const NeonBlock& block, Classify classify) {
  const uint8x16_t places = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  uint8x16_t bits[4];
  for (int i = 0; i < 4; ++i) bits[i] = vandq_u8(classify(block.quarters[i]), places);
  const uint8x16_t halves = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(halves, halves)), 0);
}

inline uint8x16_t bytes_equal(uint8x16_t bytes, char value) {
  return vceqq_u8(bytes, vdupq_n_u8(static_cast<uint8_t>(value)));
}

// first <= byte < first + size, unsigned: the difference is then at most size - 1.
inline uint8x16_t bytes_in_range(uint8x16_t bytes, char first, uint8_t size) {
  const uint8x16_t offset = vsubq_u8(bytes, vdupq_n_u8(static_cast<uint8_t>(first)));
  return vcltq_u8(offset, vdupq_n_u8(size));
}

}  // namespace weft
