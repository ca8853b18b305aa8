// split_blocks with NEON, which every aarch64 processor has.
#if defined(__aarch64__)

#include <bit>

#include "tokenizer/split/all_blocks.h"
#include "tokenizer/split/neon_block.h"
#include "tokenizer/split/split_simd.h"

namespace weft {
namespace {

struct Neon {
  static uint8x16_t is_letter(uint8x16_t bytes) {
    return bytes_in_range(vorrq_u8(bytes, vdupq_n_u8(0x20)), 'a', 26);
  }
  static uint8x16_t is_upper(uint8x16_t bytes) { return bytes_in_range(bytes, 'A', 26); }
  static uint8x16_t is_number(uint8x16_t bytes) { return bytes_in_range(bytes, '0', 10); }
  static uint8x16_t is_space(uint8x16_t bytes) { return bytes_equal(bytes, ' '); }
  static uint8x16_t is_white_space(uint8x16_t bytes) {
    return vorrq_u8(is_space(bytes), bytes_in_range(bytes, '\t', 5));
  }
  static uint8x16_t is_apostrophe(uint8x16_t bytes) { return bytes_equal(bytes, '\''); }
  static uint8x16_t is_newline_byte(uint8x16_t bytes) {
    return vorrq_u8(bytes_equal(bytes, '\n'), bytes_equal(bytes, '\r'));
  }
  static uint8x16_t is_slash(uint8x16_t bytes) { return bytes_equal(bytes, '/'); }
  static uint8x16_t is_non_ascii(uint8x16_t bytes) { return vcgeq_u8(bytes, vdupq_n_u8(0x80)); }

  static uint8x16_t is_lead(uint8x16_t bytes) { return vcgeq_u8(bytes, vdupq_n_u8(0xC0)); }
  static uint8x16_t is_falcon_number(uint8x16_t bytes) {
    uint8x16_t found = vdupq_n_u8(0);
    for (const uint8_t byte : kFalconNumbers)
      found = vorrq_u8(found, vceqq_u8(bytes, vdupq_n_u8(byte)));
    return found;
  }
  static uint8x16_t is_in_set(const AsciiSet& set, uint8x16_t bytes) {
    const uint8x16_t bits_of_high = {1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint8x16_t row = vqtbl1q_u8(vld1q_u8(set.rows.data()), vandq_u8(bytes, vdupq_n_u8(15)));
    return vtstq_u8(row, vqtbl1q_u8(bits_of_high, vshrq_n_u8(bytes, 4)));
  }

  template <typename Pattern>
  [[gnu::always_inline]] static inline BlockMasks classify(const SplitTables& tables,
                                                           const uint8_t* position) {
    const NeonBlock block = load_neon_block(position);
    BlockMasks masks;
    masks.letters = neon_mask(block, is_letter);
    masks.upper = neon_mask(block, is_upper);
    masks.numbers = neon_mask(block, is_number);
    masks.white_space = neon_mask(block, is_white_space);
    masks.spaces = neon_mask(block, is_space);
    masks.apostrophes = neon_mask(block, is_apostrophe);
    masks.newlines = neon_mask(block, is_newline_byte);
    masks.slashes = neon_mask(block, is_slash);
    masks.non_ascii = neon_mask(block, is_non_ascii);
    masks.leads = neon_mask(block, is_lead);
    const auto in_set = [&](const AsciiSet& set) {
      return neon_mask(block, [&](uint8x16_t bytes) { return is_in_set(set, bytes); });
    };
    masks.punctuation = in_set(tables.ascii_punctuation);
    masks.symbols = in_set(tables.ascii_symbols);
    masks.falcon_numbers = neon_mask(block, is_falcon_number);
    return masks;
  }

  template <typename Pattern>
  static void paint(const SplitTables& tables, const uint8_t* text_block, const uint8_t* end,
                    BlockMasks& masks, uint64_t& inner) {
    paint_non_ascii(tables.classes, text_block, end, masks.leads, masks, inner);
  }

  template <bool any_case>
  static Contractions contractions(const uint8_t* block, uint64_t apostrophes, const BlockMasks&) {
    return find_contractions<any_case>(block, apostrophes);
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

SplitBatch split_batch_neon(SplitKind kind) { return split_batch_of<Neon>(kind); }

}  // namespace weft

#endif
