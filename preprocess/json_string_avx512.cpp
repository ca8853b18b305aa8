// json_string.h with AVX-512 BW, VBMI and VBMI2. To be called only where has_simd(Simd::kAvx512).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "preprocess/json_escape.h"
#include "preprocess/json_string.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")
#include "preprocess/json_string_blocks.h"

namespace weft {
namespace {

__m512i vector_of(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

uint64_t first_bits(size_t count) { return _bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(count)); }

__m512i load_bytes(const char* position, size_t num_bytes) {
  return _mm512_maskz_loadu_epi8(first_bits(num_bytes), position);
}

// What escaped bytes stand for, by a lookup of 7 bits; zero for other bytes and for wrong escapes.
__m512i meanings_of(__m512i bytes, uint64_t escaped) {
  return _mm512_maskz_permutex2var_epi8(escaped & ~_mm512_movepi8_mask(bytes),
                                        _mm512_load_si512(kSimpleEscapes.meaning), bytes,
                                        _mm512_load_si512(kSimpleEscapes.meaning + 64));
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
    const __m512i meanings = meanings_of(bytes, ~uint64_t{0});
    return {_mm512_cmpeq_epi8_mask(bytes, vector_of('"')),
            _mm512_cmpeq_epi8_mask(bytes, vector_of('\\')),
            _mm512_cmplt_epu8_mask(bytes, vector_of(0x20)),
            _mm512_test_epi8_mask(meanings, meanings),
            _mm512_cmpeq_epi8_mask(bytes, vector_of('u'))};
  }
};

}  // namespace

StringEnd find_string_end_avx512(const char* begin, const char* end) {
  return find_string_end_in_blocks<Avx512>(begin, end);
}

// A block at a time without asking whether it has escapes: escaped bytes are replaced by what they
// stand for, and what is left when the backslashes are squeezed out goes to `out`. A block ends
// early before a \u escape, and before a backslash whose other half lies in the next one.
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
    const uint64_t u = escaped & _mm512_cmpeq_epi8_mask(bytes, vector_of('u'));
    num_bytes -= carry;
    if (u != 0) num_bytes = static_cast<size_t>(std::countr_zero(u)) - 1;
    const uint64_t kept = (~backslashes | escaped) & first_bits(num_bytes);
    const __m512i text = _mm512_mask_mov_epi8(bytes, escaped, meanings_of(bytes, escaped));
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, text));
    out += std::popcount(kept);
    position += num_bytes;
    if (u != 0) out = unescape_unicode(position, end, out, num_replaced);
  }
  return out;
}

int64_t count_code_points_avx512(std::string_view text) {
  // Continuation bytes are those below 0xC0, as signed numbers: -128 to -65.
  const __m512i first_other = vector_of(-64);
  int64_t count = 0;
  size_t i = 0;
  for (; i + 64 <= text.size(); i += 64) {
    const __m512i bytes = _mm512_loadu_si512(text.data() + i);
    count += std::popcount(_mm512_cmpge_epi8_mask(bytes, first_other));
  }
  const uint64_t rest = first_bits(text.size() - i);
  const __m512i bytes = _mm512_maskz_loadu_epi8(rest, text.data() + i);
  return count + std::popcount(_mm512_cmpge_epi8_mask(bytes, first_other) & rest);
}

}  // namespace weft

#endif
