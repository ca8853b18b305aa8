// split_blocks with AVX2 and BMI2. May be called only where has_simd(Simd::kAvx2).
#if defined(__x86_64__)

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "tokenizer/split/char_at.h"
#include "tokenizer/split/gpt2_piece.h"
#include "tokenizer/split/split_simd.h"

#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#include "tokenizer/split/gpt2_blocks.h"

namespace weft {
namespace {

__m256i vector_of(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }

uint64_t mask_of(__m256i vector) { return static_cast<uint32_t>(_mm256_movemask_epi8(vector)); }

// first <= byte < first + size, unsigned: the difference is then at most size - 1.
__m256i in_range(__m256i bytes, int first, int size) {
  const __m256i offset = _mm256_sub_epi8(bytes, vector_of(first));
  return _mm256_cmpeq_epi8(_mm256_min_epu8(offset, vector_of(size - 1)), offset);
}

struct Avx2 {
  // Classes of half a block, in the low 32 bits.
  static BlockMasks classify_half(const uint8_t* half) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(half));
    const __m256i lower_case = _mm256_or_si256(bytes, vector_of(0x20));
    const __m256i spaces = _mm256_cmpeq_epi8(bytes, vector_of(' '));
    return {mask_of(in_range(lower_case, 'a', 26)),
            mask_of(in_range(bytes, '0', 10)),
            mask_of(_mm256_or_si256(spaces, in_range(bytes, '\t', 5))),
            mask_of(spaces),
            mask_of(_mm256_cmpeq_epi8(bytes, vector_of('\''))),
            mask_of(bytes)};
  }

  static BlockMasks classify(const uint8_t* block) {
    const BlockMasks low = classify_half(block), high = classify_half(block + 32);
    return {low.letters | high.letters << 32,         low.numbers | high.numbers << 32,
            low.white_space | high.white_space << 32, low.spaces | high.spaces << 32,
            low.apostrophes | high.apostrophes << 32, low.non_ascii | high.non_ascii << 32};
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
        out[i + k] = position + _tzcnt_u64(bits);
        bits &= bits - 1;
      }
    }
    return num_bits;
  }
};

}  // namespace

size_t split_gpt2_avx2(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  return split_blocks<Avx2, Gpt2Blocks>(text, begin, ends, max_pieces);
}

}  // namespace weft

#endif
