// split_blocks with NEON, which every aarch64 processor has.
#if defined(__aarch64__)

#include <bit>

#include "tokenizer/split/gpt2_blocks.h"
#include "tokenizer/split/neon_block.h"
#include "tokenizer/split/split_simd.h"

namespace weft {
namespace {

struct Neon {
  static uint8x16_t is_letter(uint8x16_t bytes) {
    return bytes_in_range(vorrq_u8(bytes, vdupq_n_u8(0x20)), 'a', 26);
  }
  static uint8x16_t is_number(uint8x16_t bytes) { return bytes_in_range(bytes, '0', 10); }
  static uint8x16_t is_space(uint8x16_t bytes) { return bytes_equal(bytes, ' '); }
  static uint8x16_t is_white_space(uint8x16_t bytes) {
    return vorrq_u8(is_space(bytes), bytes_in_range(bytes, '\t', 5));
  }
  static uint8x16_t is_apostrophe(uint8x16_t bytes) { return bytes_equal(bytes, '\''); }
  static uint8x16_t is_non_ascii(uint8x16_t bytes) { return vcgeq_u8(bytes, vdupq_n_u8(0x80)); }

  static BlockMasks classify(const uint8_t* position) {
    const NeonBlock block = load_neon_block(position);
    return {neon_mask(block, is_letter),      neon_mask(block, is_number),
            neon_mask(block, is_white_space), neon_mask(block, is_space),
            neon_mask(block, is_apostrophe),  neon_mask(block, is_non_ascii)};
  }

  static void paint(const uint8_t* text_block, const uint8_t* end, BlockMasks& masks,
                    uint64_t& inner) {
    paint_non_ascii(text_block, end, masks, inner);
  }

  static uint64_t cut(const uint8_t* block, uint64_t starts, const BlockMasks& masks) {
    return cut_contractions(block, starts, masks.apostrophes);
  }

  static size_t write_positions(uint64_t bits, size_t position, size_t* out) {
    const auto num_bits = static_cast<size_t>(std::popcount(bits));
    // Eight at a time without asking after each; beyond the last bit the values mean nothing.
    for (size_t i = 0; i < num_bits; i += 8) {
      for (size_t k = 0; k < 8; ++k) {
        out[i + k] = position + static_cast<size_t>(std::countr_zero(bits));
        bits &= bits - 1;
      }
    }
    return num_bits;
  }
};

}  // namespace

size_t split_gpt2_neon(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  return split_blocks<Neon, Gpt2Blocks>(text, begin, ends, max_pieces);
}

}  // namespace weft

#endif
