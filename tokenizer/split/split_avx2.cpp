// split_blocks with AVX2 and BMI2. May be called only where has_simd(Simd::kAvx2).
#if defined(__x86_64__)

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "tokenizer/split/split_simd.h"

#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#include "tokenizer/split/all_blocks.h"

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
  // The classes of ASCII bytes are the same for all patterns but for punctuation and symbols. (In a
  // template GCC would not compile the lambdas for AVX2.)
  [[gnu::always_inline]] static inline BlockMasks classify_ascii(const SplitTables& tables,
                                                                 const uint8_t* block) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
    const auto bytes_that = [&](auto are) { return mask_of(are(low)) | mask_of(are(high)) << 32; };
    const auto equal_to = [&](char c) {
      return bytes_that([c](__m256i bytes) { return _mm256_cmpeq_epi8(bytes, vector_of(c)); });
    };
    const __m256i bits_of_high =
        _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16,
                         32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
    const auto in_set = [&](const AsciiSet& set) {
      const __m256i rows = _mm256_broadcastsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(set.rows.data())));
      return bytes_that([&](__m256i bytes) {
        const __m256i high_half = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), vector_of(15));
        const __m256i bit = _mm256_shuffle_epi8(bits_of_high, high_half);
        const __m256i row = _mm256_shuffle_epi8(rows, bytes);  // 0 for bytes above ASCII
        return _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), bit);
      });
    };
    BlockMasks masks;
    masks.letters = bytes_that(
        [&](__m256i bytes) { return in_range(_mm256_or_si256(bytes, vector_of(0x20)), 'a', 26); });
    masks.upper = bytes_that([&](__m256i bytes) { return in_range(bytes, 'A', 26); });
    masks.numbers = bytes_that([&](__m256i bytes) { return in_range(bytes, '0', 10); });
    masks.spaces = equal_to(' ');
    masks.white_space =
        masks.spaces | bytes_that([&](__m256i bytes) { return in_range(bytes, '\t', 5); });
    masks.apostrophes = equal_to('\'');
    masks.newlines = equal_to('\n') | equal_to('\r');
    masks.slashes = equal_to('/');
    masks.punctuation = in_set(tables.ascii_punctuation);
    masks.symbols = in_set(tables.ascii_symbols);
    masks.non_ascii = bytes_that([&](__m256i bytes) { return bytes; });
    masks.leads = bytes_that([&](__m256i bytes) { return in_range(bytes, 0xC0, 0x40); });
    for (const uint8_t byte : kFalconNumbers)
      masks.falcon_numbers |= equal_to(static_cast<char>(byte));
    return masks;
  }
  template <typename Pattern>
  [[gnu::always_inline]] static inline BlockMasks classify(const SplitTables& tables,
                                                           const uint8_t* block) {
    return classify_ascii(tables, block);
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
        out[i + k] = position + _tzcnt_u64(bits);
        bits &= bits - 1;
      }
    }
    return num_bits;
  }
};

}  // namespace

SplitBatch split_batch_avx2(SplitKind kind) { return split_batch_of<Avx2>(kind); }

}  // namespace weft

#endif
