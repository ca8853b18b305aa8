// json_string.h with AVX2. To be called only where has_simd(Simd::kAvx2).
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "preprocess/documents/json_escape.h"
#include "preprocess/documents/json_string.h"

#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#include "preprocess/documents/json_string_blocks.h"

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
// Of ASCII bytes, by either half of the byte; zero for others.
__m256i look_up_low(__m256i bytes, __m128i table) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), bytes);
}
__m256i look_up_high(__m256i bytes, __m128i table) {
  const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), vector_of(0x0F));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), high);
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
  // The bytes "\/bfnrtu: a bit for each of the upper halves 2, 5, 6 and 7 that they have, and
  // for each lower half the bits of the upper ones that go with it.
  static __m256i is_no_known_escape(__m256i bytes) {
    const __m128i of_low = _mm_setr_epi8(0, 0, 13, 0, 8, 8, 4, 0, 0, 0, 0, 0, 2, 0, 4, 1);
    const __m128i of_high = _mm_setr_epi8(0, 0, 1, 0, 0, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i both = _mm256_and_si256(look_up_low(bytes, of_low), look_up_high(bytes, of_high));
    return _mm256_cmpeq_epi8(both, _mm256_setzero_si256());
  }
  static __m256i is_hex_digit(__m256i bytes) {
    const __m256i lower_case = _mm256_or_si256(bytes, vector_of(0x20));
    return _mm256_or_si256(in_range(bytes, '0', 10), in_range(lower_case, 'a', 6));
  }
  static __m256i is_u(__m256i bytes) { return equal(bytes, 'u'); }

  static uint64_t stops(const Block& block) { return mask(block, is_stop); }
  static StringMasks masks(const Block& block) {
    return {mask(block, is_quote), mask(block, is_backslash), mask(block, controls)};
  }
  static EscapeMasks escape_masks(const Block& block) {
    return {~mask(block, is_no_known_escape), mask(block, is_u)};
  }
  static uint64_t hex_digits(const Block& block) { return mask(block, is_hex_digit); }
};

}  // namespace

StringEnd find_string_end_avx2(const char* begin, const char* end) {
  return find_string_end_in_blocks<Avx2>(begin, end);
}

namespace {

// Where in 8 bytes those stand that a mask keeps, one after the other.
struct Squeezing {
  uint64_t order[256] = {};
  constexpr Squeezing() {
    for (uint64_t mask = 0; mask < 256; ++mask) {
      int num_kept = 0;
      for (uint64_t i = 0; i < 8; ++i) {
        if ((mask >> i & 1) != 0) order[mask] |= i << 8 * num_kept++;
      }
    }
  }
};
alignas(64) constexpr Squeezing kSqueezing;

// Writes 16 bytes without those that `kept` does not keep, and up to 8 behind them.
char* write_kept(__m128i bytes, uint64_t kept, char* out) {
  const uint64_t first = kept & 0xFF, second = kept >> 8 & 0xFF;
  const __m128i from_second = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8);
  const __m128i order = _mm_set_epi64x(static_cast<int64_t>(kSqueezing.order[second]),
                                       static_cast<int64_t>(kSqueezing.order[first]));
  const __m128i squeezed = _mm_shuffle_epi8(bytes, _mm_or_si128(order, from_second));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), squeezed);
  out += std::popcount(first);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_unpackhi_epi64(squeezed, squeezed));
  return out + std::popcount(second);
}

char* write_kept(__m256i bytes, uint64_t kept, char* out) {
  out = write_kept(_mm256_castsi256_si128(bytes), kept, out);
  return write_kept(_mm256_extracti128_si256(bytes, 1), kept >> 16, out);
}

// 0xFF for each bit that is set.
__m256i bytes_of(uint64_t bits) {
  const __m256i byte_of_bits =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i all =
      _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(bits)), byte_of_bits);
  return _mm256_cmpeq_epi8(_mm256_and_si256(all, bit), bit);
}

// The escaped ones of bfnrt become what they stand for.
__m256i with_meanings(__m256i bytes, uint64_t escaped) {
  const __m128i of_6x =
      _mm_setr_epi8(0, 0, 'b' ^ '\b', 0, 0, 0, 'f' ^ '\f', 0, 0, 0, 0, 0, 0, 0, 'n' ^ '\n', 0);
  const __m128i of_7x =
      _mm_setr_epi8(0, 0, 'r' ^ '\r', 0, 't' ^ '\t', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m256i change = _mm256_blendv_epi8(look_up_low(bytes, of_6x), look_up_low(bytes, of_7x),
                                            _mm256_cmpgt_epi8(bytes, vector_of(0x6F)));
  const __m256i changes =
      _mm256_and_si256(_mm256_cmpgt_epi8(bytes, vector_of(0x5F)), bytes_of(escaped));
  return _mm256_xor_si256(bytes, _mm256_and_si256(change, changes));
}

// Where there is one \\u, as a rule more follow.
constexpr ptrdiff_t kUnicodeStretchBytes = 256;

// Escape by escape, to the first that begins at `stop` or behind it. 32 bytes are copied whatever
// they are; those behind a backslash are overwritten by what follows.
char* unescape_one_by_one(const char*& position, const char* stop, const char* end, char* out,
                          int64_t& num_replaced) {
  while (position < stop) {
    if (end - position >= 32) {
      const __m256i bytes = load_half(position);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
      const uint32_t backslashes = bits_of(equal(bytes, '\\'));
      const int num_plain = backslashes == 0 ? 32 : std::countr_zero(backslashes);
      out += num_plain;
      position += num_plain;
      if (backslashes == 0) continue;
    } else {
      while (position != end && *position != '\\') *out++ = *position++;
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

}  // namespace

// As with AVX-512, whose compress is a look-up for every 8 bytes here. A backslash whose other half
// lies in the next block is left to that.
char* unescape_string_avx2(std::string_view raw, char* out, int64_t& num_replaced) {
  const char* position = raw.data();
  const char* const end = raw.data() + raw.size();
  while (end - position >= 64) {
    const Avx2::Block block = Avx2::load(position, 64);
    const uint64_t backslashes = Avx2::mask(block, Avx2::is_backslash);
    if (backslashes == 0) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), block.low);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 32), block.high);
      out += 64;
      position += 64;
      continue;
    }
    uint64_t carry = 0;
    const uint64_t escaped = find_escaped<Avx2>(backslashes, carry);
    if ((escaped & Avx2::mask(block, Avx2::is_u)) != 0) {
      const char* const stop = position + std::min<ptrdiff_t>(kUnicodeStretchBytes, end - position);
      out = unescape_one_by_one(position, stop, end, out, num_replaced);
      continue;
    }
    const uint64_t kept = ~backslashes | escaped;
    out = write_kept(with_meanings(block.low, escaped), kept, out);
    out = write_kept(with_meanings(block.high, escaped >> 32), kept >> 32, out);
    position += 64 - carry;
  }
  return unescape_one_by_one(position, end, end, out, num_replaced);
}

}  // namespace weft

#endif
