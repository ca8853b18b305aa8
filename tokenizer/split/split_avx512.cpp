// split_blocks with AVX-512 BW, VBMI and VBMI2. May be called only where has_simd(Simd::kAvx512).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "tokenizer/split/char_at.h"
#include "tokenizer/split/gpt2_piece.h"
#include "tokenizer/split/split_simd.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#include "tokenizer/split/gpt2_blocks.h"

namespace weft {
namespace {

// One bit for each mask, for each ASCII byte: one permutation looks 64 bytes up. The last three are
// for contractions.
constexpr uint8_t kLetter = 1, kNumber = 2, kWhiteSpace = 4, kSpace = 8, kApostrophe = 16;
constexpr uint8_t kSTMD = 32, kRV = 64, kL = 128;
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
  for (const char c : {'s', 't', 'm', 'd'}) bits.of_byte[static_cast<int>(c)] |= kSTMD;
  for (const char c : {'r', 'v'}) bits.of_byte[static_cast<int>(c)] |= kRV;
  bits.of_byte['l'] |= kL;
  return bits;
}();

struct Masks : BlockMasks {
  uint64_t stmd, rv, e, l;  // letters of contractions
};

uint64_t bytes_with(__m512i class_bits, uint8_t bit) {
  return _mm512_test_epi8_mask(class_bits, _mm512_set1_epi8(static_cast<char>(bit)));
}
uint64_t bytes_equal(__m512i bytes, uint8_t value) {
  return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(static_cast<char>(value)));
}
uint64_t bytes_from(__m512i bytes, uint8_t least) {
  return _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(static_cast<char>(least)));
}
uint64_t continuations(__m512i bytes) {
  return _mm512_cmplt_epi8_mask(bytes, _mm512_set1_epi8(static_cast<char>(0xC0)));
}

void write_8(__m128i eight_indices, __m512i base, size_t* out) {
  _mm512_storeu_si512(out, _mm512_add_epi64(_mm512_cvtepu8_epi64(eight_indices), base));
}

// Widens the low half of `bytes` to 16 bits each and keeps only the bits of a mask.
__m512i widen(__m512i bytes, int16_t mask) {
  return _mm512_and_si512(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)),
                          _mm512_set1_epi16(mask));
}

// Makes code points from the three bytes of up to 32 characters, which have two bytes where
// `is_wide` has no bit.
__m512i code_points(__m512i first, __m512i second, __m512i third, uint32_t is_wide) {
  const __m512i last = widen(second, 0x3F);
  const __m512i narrow = _mm512_or_si512(_mm512_slli_epi16(widen(first, 0x1F), 6), last);
  const __m512i wide = _mm512_or_si512(
      _mm512_or_si512(_mm512_slli_epi16(widen(first, 0xF), 12), _mm512_slli_epi16(last, 6)),
      widen(third, 0x3F));
  return _mm512_mask_blend_epi16(is_wide, narrow, wide);
}

// Looks 16 code points up in kClassesBelow10000.
__m512i classes_of(__m256i sixteen_code_points) {
  const __m512i c = _mm512_cvtepu16_epi32(sixteen_code_points);
  const __m512i of_16 = _mm512_i32gather_epi32(_mm512_srli_epi32(c, 4), kClassesBelow10000, 4);
  const __m512i shift = _mm512_slli_epi32(_mm512_and_si512(c, _mm512_set1_epi32(15)), 1);
  return _mm512_and_si512(_mm512_srlv_epi32(of_16, shift), _mm512_set1_epi32(3));
}

struct Avx512 {
  static Masks classify(const uint8_t* block) {
    const __m512i bytes = _mm512_loadu_si512(block);
    const uint64_t non_ascii = _mm512_movepi8_mask(bytes);
    // The permutation takes bytes modulo 128: those above ASCII are zeroed.
    const __m512i bits =
        _mm512_maskz_permutex2var_epi8(~non_ascii, _mm512_load_si512(kClassBits.of_byte), bytes,
                                       _mm512_load_si512(kClassBits.of_byte + 64));
    return {{bytes_with(bits, kLetter), bytes_with(bits, kNumber), bytes_with(bits, kWhiteSpace),
             bytes_with(bits, kSpace), bytes_with(bits, kApostrophe), non_ascii},
            bytes_with(bits, kSTMD),
            bytes_with(bits, kRV),
            bytes_equal(bytes, 'e'),
            bytes_with(bits, kL)};
  }

  // Treats all characters of two and three bytes at once; those of four bytes, and those whose end
  // might lie behind the text, one by one.
  static void paint(const uint8_t* text_block, const uint8_t* end, Masks& masks, uint64_t& inner) {
    if (end - text_block < static_cast<ptrdiff_t>(kBlockBytes) + 2)
      return paint_non_ascii(text_block, end, masks, inner);
    const __m512i first = _mm512_loadu_si512(text_block);
    const __m512i second = _mm512_loadu_si512(text_block + 1);
    const __m512i third = _mm512_loadu_si512(text_block + 2);
    const uint64_t from_wide = bytes_from(first, 0xE0), from_four = bytes_from(first, 0xF0);
    const uint64_t followed = continuations(second);
    const uint64_t narrow = bytes_from(first, 0xC2) & ~from_wide & followed;
    // Overlong forms and surrogates are no characters.
    const uint64_t second_is_high = bytes_from(second, 0xA0);
    const uint64_t wide = from_wide & ~from_four & followed & continuations(third) &
                          ~(bytes_equal(first, 0xE0) & ~second_is_high) &
                          ~(bytes_equal(first, 0xED) & second_is_high);
    inner = (narrow | wide) << 1 | wide << 2;
    const __m512i lead_classes = _mm512_permutexvar_epi8(first, _mm512_loadu_si512(kClassOfLead));
    uint64_t letters =
        bytes_equal(lead_classes, static_cast<uint8_t>(CharClass::kLetter)) & (narrow | wide);
    uint64_t numbers = 0, white_space = 0;
    // Curly quotes and dashes, U+2010 to U+2027, are all there is in most English blocks.
    const uint64_t punctuation = bytes_equal(first, 0xE2) & bytes_equal(second, 0x80) &
                                 bytes_from(third, 0x90) & ~bytes_from(third, 0xA8);
    const uint64_t mixed = (narrow | wide) & ~letters & ~(wide & punctuation) &
                           ~bytes_equal(lead_classes, static_cast<uint8_t>(CharClass::kOther));
    if (mixed != 0) {
      const __m512i points = code_points(
          _mm512_maskz_compress_epi8(mixed, first), _mm512_maskz_compress_epi8(mixed, second),
          _mm512_maskz_compress_epi8(mixed, third), static_cast<uint32_t>(_pext_u64(wide, mixed)));
      const __m512i low = classes_of(_mm512_castsi512_si256(points));
      const __m512i high = std::popcount(mixed) <= 16
                               ? _mm512_setzero_si512()
                               : classes_of(_mm512_extracti64x4_epi64(points, 1));
      const auto with_class = [&](CharClass wanted) {
        const __m512i value = _mm512_set1_epi32(static_cast<int>(wanted));
        return _pdep_u64(_mm512_cmpeq_epi32_mask(low, value) |
                             uint64_t{_mm512_cmpeq_epi32_mask(high, value)} << 16,
                         mixed);
      };
      letters |= with_class(CharClass::kLetter);
      numbers = with_class(CharClass::kNumber);
      white_space = with_class(CharClass::kSpace);
    }
    const auto on_all_bytes = [&](uint64_t leads) {
      return leads | leads << 1 | (leads & wide) << 2;
    };
    masks.letters |= on_all_bytes(letters);
    masks.numbers |= on_all_bytes(numbers);
    masks.white_space |= on_all_bytes(white_space);
    if (from_four != 0) {
      masks.non_ascii = from_four;
      paint_non_ascii(text_block, end, masks, inner);
    }
  }

  // All contractions can be cut at once: a letter follows each apostrophe, so none of the starts
  // that are taken away is an apostrophe, and where one is added an apostrophe starts a piece
  // anyway.
  static uint64_t cut(const uint8_t*, uint64_t starts, const Masks& masks) {
    const uint64_t apostrophes = starts & masks.apostrophes;
    const uint64_t two = apostrophes & masks.stmd >> 1;
    const uint64_t three =
        apostrophes & ((masks.rv >> 1 & masks.e >> 2) | (masks.l >> 1 & masks.l >> 2));
    // The bytes behind an apostrophe in the last byte but one are not sure.
    const uint64_t unsure = (apostrophes & uint64_t{1} << 62) << 1;
    return (starts & ~((two | three) << 1 | unsure)) | two << 2 | three << 3;
  }

  static size_t write_positions(uint64_t bits, size_t position, size_t* out) {
    alignas(64) static constexpr uint8_t kIota[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const __m512i indices = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kIota));
    const __m512i base = _mm512_set1_epi64(static_cast<int64_t>(position));
    const auto num_bits = static_cast<size_t>(std::popcount(bits));
    // English has 15 pieces in a block: the first 16 are written without asking.
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

size_t split_gpt2_avx512(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  return split_blocks<Avx512, Gpt2Blocks>(text, begin, ends, max_pieces);
}

}  // namespace weft

#endif
