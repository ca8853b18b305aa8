// json_string.h with AVX-512 BW, VBMI and VBMI2. To be called only where has_simd(Simd::kAvx512).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "preprocess/documents/json_escape.h"
#include "preprocess/documents/json_string.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#include "preprocess/documents/json_string_blocks.h"

namespace weft {
namespace {

__m512i vector_of(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

uint64_t first_bits(size_t count) { return _bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(count)); }

__m512i load_bytes(const char* position, size_t num_bytes) {
  return _mm512_maskz_loadu_epi8(first_bits(num_bytes), position);
}

// The entries of a table of 128 for the bytes that `wanted` marks; zero for others and above ASCII.
__m512i look_up(__m512i bytes, uint64_t wanted, const char* table) {
  return _mm512_maskz_permutex2var_epi8(wanted & ~_mm512_movepi8_mask(bytes),
                                        _mm512_load_si512(table), bytes,
                                        _mm512_load_si512(table + 64));
}

constexpr char kSimple = 1, kU = 2, kHexDigit = 4;
struct alignas(64) EscapeClasses {
  char of_byte[128];
};
constexpr EscapeClasses kEscapeClasses = [] {
  EscapeClasses classes{};
  for (size_t c = 0; c < 128; ++c) {
    const bool is_hex_digit = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    if (kSimpleEscapes.meaning[c] != 0) classes.of_byte[c] |= kSimple;
    if (c == 'u') classes.of_byte[c] |= kU;
    if (is_hex_digit) classes.of_byte[c] |= kHexDigit;
  }
  return classes;
}();

char* write_kept(__m512i bytes, uint64_t kept, char* out) {
  _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, bytes));
  return out + std::popcount(kept);
}

struct Avx512 {
  using Block = __m512i;
  static Block load(const char* position, size_t num_bytes) {
    return load_bytes(position, num_bytes);
  }
  static uint64_t stops(Block bytes) {
    return _mm512_cmpeq_epi8_mask(bytes, vector_of('"')) |
           _mm512_cmpeq_epi8_mask(bytes, vector_of('\\')) |
           _mm512_cmplt_epu8_mask(bytes, vector_of(0x20));
  }
  static StringMasks masks(Block bytes) {
    return {_mm512_cmpeq_epi8_mask(bytes, vector_of('"')),
            _mm512_cmpeq_epi8_mask(bytes, vector_of('\\')),
            _mm512_cmplt_epu8_mask(bytes, vector_of(0x20))};
  }
  static uint64_t of_class(Block bytes, char wanted) {
    const __m512i classes = look_up(bytes, ~uint64_t{0}, kEscapeClasses.of_byte);
    return _mm512_test_epi8_mask(classes, vector_of(wanted));
  }
  static EscapeMasks escape_masks(Block bytes) {
    return {of_class(bytes, kSimple | kU), of_class(bytes, kU)};
  }
  static uint64_t hex_digits(Block bytes) { return of_class(bytes, kHexDigit); }
};

}  // namespace

StringEnd find_string_end_avx512(const char* begin, const char* end) {
  return find_string_end_in_blocks<Avx512>(begin, end);
}

// A block at a time without asking whether it has escapes: escaped bytes are replaced by what they
// stand for, and what is left when the backslashes are squeezed out goes to `out`. With \u escapes
// so the text before each of them. A backslash whose other half lies in the next block is left to
// that.
char* unescape_string_avx512(std::string_view raw, char* out, int64_t& num_replaced) {
  const char* position = raw.data();
  const char* const end = raw.data() + raw.size();
  while (position != end) {
    const auto left = static_cast<size_t>(end - position);
    size_t num_bytes = left < 64 ? left : 64;
    const __m512i bytes = load_bytes(position, num_bytes);
    const uint64_t backslashes = _mm512_cmpeq_epi8_mask(bytes, vector_of('\\'));
    uint64_t carry = 0;
    const uint64_t escaped = find_escaped<Avx512>(backslashes, carry);
    uint64_t u = escaped & _mm512_cmpeq_epi8_mask(bytes, vector_of('u'));
    const __m512i text =
        _mm512_mask_mov_epi8(bytes, escaped, look_up(bytes, escaped, kSimpleEscapes.meaning));
    uint64_t kept = ~backslashes | escaped;
    // By branches, or the next block would wait for the masks of this one.
    if (__builtin_expect((u | carry) != 0 || left < 64, 0)) {
      num_bytes -= carry;
      size_t done = 0;
      for (; u != 0; u &= ~first_bits(done)) {
        const auto begin = static_cast<size_t>(std::countr_zero(u)) - 1;
        out = write_kept(text, kept & first_bits(begin) & ~first_bits(done), out);
        const char* escape = position + begin;
        out = unescape_unicode(escape, end, out, num_replaced);
        done = static_cast<size_t>(escape - position);
      }
      kept &= first_bits(num_bytes) & ~first_bits(done);
      num_bytes = std::max(num_bytes, done);  // the last one may end in the next block
    }
    out = write_kept(text, kept, out);
    position += num_bytes;
  }
  return out;
}

}  // namespace weft

#endif
