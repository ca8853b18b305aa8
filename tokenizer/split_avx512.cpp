// split_blocks with AVX-512 BW, VBMI and VBMI2. To be called only where has_simd(Simd::kAvx512).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "tokenizer/char_at.h"
#include "tokenizer/split_scalar.h"
#include "tokenizer/split_simd.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#include "tokenizer/split_blocks.h"

namespace weft {
namespace {

// One bit for each mask of BlockMasks, for each ASCII byte: one permutation looks 64 bytes up.
constexpr uint8_t kLetter = 1, kNumber = 2, kWhiteSpace = 4, kSpace = 8, kApostrophe = 16;
struct alignas(64) ClassBits {
  uint8_t of_byte[128];
};
constexpr ClassBits kClassBits = [] {
  ClassBits bits{};
  for (int c = 0; c < 128; ++c) {
    const auto char_class = static_cast<CharClass>(kByteClasses[c]);
    bits.of_byte[c] = char_class == CharClass::kLetter   ? kLetter
                      : char_class == CharClass::kNumber ? kNumber
                      : char_class == CharClass::kSpace  ? kWhiteSpace
                                                         : 0;
  }
  bits.of_byte[' '] |= kSpace;
  bits.of_byte['\''] |= kApostrophe;
  return bits;
}();

uint64_t bytes_with(__m512i class_bits, uint8_t bit) {
  return _mm512_test_epi8_mask(class_bits, _mm512_set1_epi8(static_cast<char>(bit)));
}

void write_8(__m128i eight_indices, __m512i base, size_t* out) {
  _mm512_storeu_si512(out, _mm512_add_epi64(_mm512_cvtepu8_epi64(eight_indices), base));
}

struct Avx512 {
  static BlockMasks classify(const uint8_t* block) {
    const __m512i bytes = _mm512_loadu_si512(block);
    const uint64_t non_ascii = _mm512_movepi8_mask(bytes);
    // The permutation takes bytes modulo 128: those above ASCII are zeroed.
    const __m512i bits =
        _mm512_maskz_permutex2var_epi8(~non_ascii, _mm512_load_si512(kClassBits.of_byte), bytes,
                                       _mm512_load_si512(kClassBits.of_byte + 64));
    return {bytes_with(bits, kLetter), bytes_with(bits, kNumber),     bytes_with(bits, kWhiteSpace),
            bytes_with(bits, kSpace),  bytes_with(bits, kApostrophe), non_ascii};
  }

  static size_t write_positions(uint64_t bits, size_t position, size_t* out) {
    alignas(64) static constexpr uint8_t kIota[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const __m512i indices = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kIota));
    const __m512i base = _mm512_set1_epi64(static_cast<int64_t>(position));
    const auto num_bits = static_cast<size_t>(std::popcount(bits));
    // English has 15 pieces in a block: the first 16 without asking.
    const __m128i first = _mm512_castsi512_si128(indices);
    write_8(first, base, out);
    write_8(_mm_srli_si128(first, 8), base, out + 8);
    if (num_bits > 16) {
      alignas(64) uint8_t rest[64];
      _mm512_store_si512(rest, indices);
      for (size_t i = 16; i < num_bits; i += 8) {
        write_8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(rest + i)), base, out + i);
      }
    }
    return num_bits;
  }
};

}  // namespace

size_t split_pieces_avx512(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  return split_blocks<Avx512>(text, begin, ends, max_pieces);
}

}  // namespace weft

#endif
