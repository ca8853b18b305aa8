// json_string.h with AVX2. To be called only where has_simd(Simd::kAvx2).
#if defined(__x86_64__)

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "preprocess/json_escape.h"
#include "preprocess/json_string.h"

#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#include "preprocess/json_string_blocks.h"

namespace weft {
namespace {

__m256i vector_of(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
__m256i load_half(const char* half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(half));
}
uint32_t bits_of(__m256i vector) { return static_cast<uint32_t>(_mm256_movemask_epi8(vector)); }

__m256i equal(__m256i bytes, char value) { return _mm256_cmpeq_epi8(bytes, vector_of(value)); }
__m256i controls(__m256i bytes) {
  return _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, vector_of(0x1F)), bytes);
}
// first <= byte < first + size, unsigned: the difference is then at most size - 1.
__m256i in_range(__m256i bytes, char first, int size) {
  const __m256i offset = _mm256_sub_epi8(bytes, vector_of(first));
  return _mm256_cmpeq_epi8(_mm256_min_epu8(offset, vector_of(size - 1)), offset);
}
__m256i any_of(__m256i bytes, std::string_view values) {
  __m256i found = _mm256_setzero_si256();
  for (const char value : values) found = _mm256_or_si256(found, equal(bytes, value));
  return found;
}

struct Avx2 {
  struct Block {
    __m256i low, high;
  };
  static Block load(const char* position, size_t num_bytes) {
    if (num_bytes == 64) return {load_half(position), load_half(position + 32)};
    char padded[64] = {};
    std::memcpy(padded, position, num_bytes);
    return {load_half(padded), load_half(padded + 32)};
  }
  template <typename Classify>
  static uint64_t mask(const Block& block, Classify classify) {
    return bits_of(classify(block.low)) | uint64_t{bits_of(classify(block.high))} << 32;
  }
  static __m256i is_stop(__m256i bytes) {
    return _mm256_or_si256(_mm256_or_si256(equal(bytes, '"'), equal(bytes, '\\')), controls(bytes));
  }
  static __m256i is_quote(__m256i bytes) { return equal(bytes, '"'); }
  static __m256i is_backslash(__m256i bytes) { return equal(bytes, '\\'); }
  static __m256i is_simple(__m256i bytes) { return any_of(bytes, "\"\\/bfnrt"); }
  static __m256i is_hex_digit(__m256i bytes) {
    const __m256i lower_case = _mm256_or_si256(bytes, vector_of(0x20));
    return _mm256_or_si256(in_range(bytes, '0', 10), in_range(lower_case, 'a', 6));
  }
  static __m256i is_u(__m256i bytes) { return equal(bytes, 'u'); }

  static uint64_t stops(const Block& block) { return mask(block, is_stop); }
  static StringMasks masks(const Block& block) {
    return {mask(block, is_quote),  mask(block, is_backslash), mask(block, controls),
            mask(block, is_simple), mask(block, is_u),         mask(block, is_hex_digit)};
  }
};

}  // namespace

StringEnd find_string_end_avx2(const char* begin, const char* end) {
  return find_string_end_in_blocks<Avx2>(begin, end);
}

// 32 bytes are copied whatever they are; those behind a backslash are overwritten by what follows.
char* unescape_string_avx2(std::string_view raw, char* out, int64_t& num_replaced) {
  const char* position = raw.data();
  const char* const end = raw.data() + raw.size();
  while (position != end) {
    const char* stop = position;
    if (end - position >= 32) {
      const __m256i bytes = load_half(position);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
      const uint32_t backslashes = bits_of(equal(bytes, '\\'));
      const int num_plain = backslashes == 0 ? 32 : std::countr_zero(backslashes);
      out += num_plain;
      position += num_plain;
      if (backslashes == 0) continue;
    } else {
      while (stop != end && *stop != '\\') *out++ = *stop++;
      position = stop;
      if (position == end) break;
    }
    if (position[1] == 'u') {
      out = unescape_unicode(position, end, out, num_replaced);
    } else {
      *out++ = simple_escape(position[1]);
      position += 2;
    }
  }
  return out;
}

int64_t count_code_points_avx2(std::string_view text) {
  // Continuation bytes are those below 0xC0, as signed numbers: -128 to -65.
  const __m256i last_continuation = vector_of(-65);
  int64_t count = 0;
  size_t i = 0;
  for (; i + 32 <= text.size(); i += 32) {
    const __m256i others = _mm256_cmpgt_epi8(load_half(text.data() + i), last_continuation);
    count += std::popcount(bits_of(others));
  }
  for (; i < text.size(); ++i) count += (text[i] & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace weft

#endif
