// split_blocks with AVX-512 BW, VBMI and VBMI2. May be called only where has_simd(Simd::kAvx512).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "tokenizer/split/split_simd.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#include "tokenizer/split/all_blocks.h"

namespace weft {
namespace {

// Bits of ASCII bytes that patterns name, beside the sets of their classes.
constexpr uint8_t kSpace = 1, kApostrophe = 2, kNewline = 4, kSlash = 8;
constexpr uint8_t kSTMD = 16, kRV = 32, kL = 64, kE = 128;  // letters of contractions
struct alignas(64) NamedBytes {
  uint8_t of_byte[128];
};
template <bool any_case>
constexpr NamedBytes kNamedBytes = [] {
  NamedBytes named{};
  const auto name = [&named](char c, uint8_t bit) {
    named.of_byte[static_cast<int>(c)] |= bit;
    if (any_case && c >= 'a') named.of_byte[c - 0x20] |= bit;
  };
  name(' ', kSpace);
  name('\'', kApostrophe);
  name('\n', kNewline);
  name('\r', kNewline);
  name('/', kSlash);
  for (const char c : {'s', 't', 'm', 'd'}) name(c, kSTMD);
  for (const char c : {'r', 'v'}) name(c, kRV);
  name('l', kL);
  name('e', kE);
  return named;
}();

struct Masks : BlockMasks {
  uint64_t stmd, rv, e, l;
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

// Looks the classes of 16 code points up and makes a bit of each: set_of(class) << 1.
__m512i class_bits_of(const CharClasses& classes, __m256i sixteen_code_points) {
  const __m512i c = _mm512_cvtepu16_epi32(sixteen_code_points);
  const __m512i of_8 = _mm512_i32gather_epi32(_mm512_srli_epi32(c, 3), classes.nibbles, 4);
  const __m512i shift = _mm512_slli_epi32(_mm512_and_si512(c, _mm512_set1_epi32(7)), 2);
  const __m512i char_class =
      _mm512_and_si512(_mm512_srlv_epi32(of_8, shift), _mm512_set1_epi32(15));
  return _mm512_sllv_epi32(_mm512_set1_epi32(1), char_class);
}

struct Avx512 {
  template <typename Pattern>
  [[gnu::always_inline]] static inline Masks classify(const SplitTables& tables,
                                                      const uint8_t* block) {
    return classify_by(tables, kNamedBytes<Pattern::kAnyCase>, block);
  }
  // In templates GCC would not compile lambdas for AVX-512.
  [[gnu::always_inline]] static inline Masks classify_by(const SplitTables& tables,
                                                         const NamedBytes& named_bytes,
                                                         const uint8_t* block) {
    const __m512i bytes = _mm512_loadu_si512(block);
    const uint64_t non_ascii = _mm512_movepi8_mask(bytes);
    // The permutation takes bytes modulo 128: those above ASCII are zeroed.
    const auto looked_up = [&](const uint8_t* of_byte) {
      return _mm512_maskz_permutex2var_epi8(~non_ascii, _mm512_load_si512(of_byte), bytes,
                                            _mm512_load_si512(of_byte + 64));
    };
    const __m512i classes = looked_up(tables.classes.set_of_ascii);
    const __m512i named = looked_up(named_bytes.of_byte);
    uint64_t falcon_numbers = 0;
    for (const uint8_t byte : kFalconNumbers) falcon_numbers |= bytes_equal(bytes, byte);
    return {{.letters = bytes_with(classes, kLetters),
             .upper = bytes_with(classes, set_of(CharClass::kUpper)),
             .caseless = 0,
             .marks = 0,
             .numbers = bytes_with(classes, kNumbers),
             .white_space = bytes_with(classes, kWhiteSpace),
             .punctuation = bytes_with(classes, set_of(CharClass::kPunctuation)),
             .symbols = bytes_with(classes, set_of(CharClass::kSymbol)),
             .spaces = bytes_with(named, kSpace),
             .apostrophes = bytes_with(named, kApostrophe),
             .newlines = bytes_with(named, kNewline),
             .slashes = bytes_with(named, kSlash),
             .non_ascii = non_ascii,
             .leads = bytes_from(bytes, 0xC0),
             .falcon_numbers = falcon_numbers},
            bytes_with(named, kSTMD),
            bytes_with(named, kRV),
            bytes_with(named, kE),
            bytes_with(named, kL)};
  }

  // Treats all characters of two and three bytes at once; those of four bytes, and those whose end
  // might lie behind the text, one by one.
  template <typename Pattern>
  [[gnu::always_inline]] static inline void paint(const SplitTables& tables,
                                                  const uint8_t* text_block, const uint8_t* end,
                                                  Masks& masks, uint64_t& inner) {
    paint_by(tables, Pattern::kAsksForPunctuation, text_block, end, masks, inner);
  }
  [[gnu::always_inline]] static inline void paint_by(const SplitTables& tables,
                                                     bool asks_for_punctuation,
                                                     const uint8_t* text_block, const uint8_t* end,
                                                     Masks& masks, uint64_t& inner) {
    if (end - text_block < static_cast<ptrdiff_t>(kBlockBytes) + 2)
      return paint_non_ascii(tables.classes, text_block, end, masks.leads, masks, inner);
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
    const __m512i lead_classes =
        _mm512_permutexvar_epi8(first, _mm512_load_si512(tables.classes_of_lead.data()));
    const uint64_t leads = narrow | wide;
    uint64_t mixed = bytes_equal(lead_classes, kMixedClasses) & leads;
    // Curly quotes and dashes, U+2010 to U+2027, are all there is in most English blocks.
    if (!asks_for_punctuation) {
      mixed &= ~(bytes_equal(first, 0xE2) & bytes_equal(second, 0x80) & bytes_from(third, 0x90) &
                 ~bytes_from(third, 0xA8));
    }
    __m512i low = _mm512_setzero_si512(), high = low;
    if (mixed != 0) {
      const __m512i points = code_points(
          _mm512_maskz_compress_epi8(mixed, first), _mm512_maskz_compress_epi8(mixed, second),
          _mm512_maskz_compress_epi8(mixed, third), static_cast<uint32_t>(_pext_u64(wide, mixed)));
      low = class_bits_of(tables.classes, _mm512_castsi512_si256(points));
      if (std::popcount(mixed) > 16)
        high = class_bits_of(tables.classes, _mm512_extracti64x4_epi64(points, 1));
    }
    const uint64_t uniform = leads & ~bytes_equal(lead_classes, kMixedClasses);
    // All bytes of the characters that are in one of these classes.
    const auto in = [&](ClassSet wanted) {
      uint64_t found = bytes_with(lead_classes, wanted) & uniform;
      if (mixed != 0) {
        const __m512i bits = _mm512_set1_epi32(wanted << 1);
        found |= _pdep_u64(
            _mm512_test_epi32_mask(low, bits) | uint64_t{_mm512_test_epi32_mask(high, bits)} << 16,
            mixed);
      }
      return found | found << 1 | (found & wide) << 2;
    };
    masks.letters |= in(kLetters);
    masks.upper |= in(set_of(CharClass::kUpper));
    masks.caseless |= in(set_of(CharClass::kCaseless));
    masks.marks |= in(kMarks);
    masks.numbers |= in(kNumbers);
    masks.white_space |= in(kWhiteSpace);
    masks.punctuation |= in(set_of(CharClass::kPunctuation));
    masks.symbols |= in(set_of(CharClass::kSymbol));
    if (from_four != 0) paint_non_ascii(tables.classes, text_block, end, from_four, masks, inner);
  }

  // All contractions are found at once: a letter follows each apostrophe, so that none of them
  // begins in another.
  template <bool any_case>
  [[gnu::always_inline]] static inline Contractions contractions(const uint8_t* block,
                                                                 uint64_t apostrophes,
                                                                 const Masks& masks) {
    Contractions found = {
        apostrophes & masks.stmd >> 1,
        apostrophes & ((masks.rv >> 1 & masks.e >> 2) | (masks.l >> 1 & masks.l >> 2))};
    if constexpr (any_case) {  // a long s has two bytes
      if (const uint64_t beside = apostrophes & masks.non_ascii >> 1)
        found.three |= find_contractions<any_case>(block, beside).three;
    }
    return found;
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

SplitBatch split_batch_avx512(SplitKind kind) { return split_batch_of<Avx512>(kind); }

}  // namespace weft

#endif
