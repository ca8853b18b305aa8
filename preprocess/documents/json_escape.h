// One escape of a JSON string at a time; and the vector functions behind json_string.h.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "preprocess/documents/json_string.h"

namespace weft {

// What the character behind a backslash stands for; 0 for `u` and for what is no escape.
struct SimpleEscapes {
  char meaning[128] = {};
  constexpr SimpleEscapes() {
    for (const char c : {'"', '\\', '/'}) meaning[static_cast<size_t>(c)] = c;
    meaning['b'] = '\b';
    meaning['f'] = '\f';
    meaning['n'] = '\n';
    meaning['r'] = '\r';
    meaning['t'] = '\t';
  }
};
alignas(64) inline constexpr SimpleEscapes kSimpleEscapes;

inline char simple_escape(char kind) {
  return static_cast<uint8_t>(kind) < 128 ? kSimpleEscapes.meaning[static_cast<uint8_t>(kind)] : 0;
}

inline bool are_four_hex_digits(const char* digits) {
  for (int i = 0; i < 4; ++i) {
    const char c = digits[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !((c | 0x20) >= 'a' && (c | 0x20) <= 'f')) return false;
  }
  return true;
}

// Of four hexadecimal digits: all nibbles at once, then joined in pairs.
inline uint32_t hex_value(const char* digits) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t bytes;
  std::memcpy(&bytes, digits, 4);
  const uint32_t nibbles = (bytes & 0x0F0F0F0F) + 9 * (bytes >> 6 & 0x01010101);
  const uint32_t swapped = __builtin_bswap32(nibbles);
  const uint32_t pairs = (swapped | swapped >> 4) & 0x00FF00FF;
  return (pairs | pairs >> 8) & 0xFFFF;
}

// Writes four bytes, whatever the length that it returns the end of: characters of different
// lengths alternate in most writing, so nothing is asked about those of one to three bytes.
inline char* write_utf8(uint32_t code_point, char* out) {
  const uint32_t last = 0x80 | (code_point & 0x3F), middle = 0x80 | (code_point >> 6 & 0x3F);
  uint32_t bytes = code_point;
  if (code_point >= 0x80) bytes = 0xC0 | code_point >> 6 | last << 8;
  if (code_point >= 0x800) bytes = 0xE0 | code_point >> 12 | middle << 8 | last << 16;
  ptrdiff_t num_bytes = 1 + (code_point >= 0x80 ? 1 : 0) + (code_point >= 0x800 ? 1 : 0);
  if (code_point >= 0x10000) {
    const uint32_t second = 0x80 | (code_point >> 12 & 0x3F);
    bytes = 0xF0 | code_point >> 18 | second << 8 | middle << 16 | last << 24;
    num_bytes = 4;
  }
  std::memcpy(out, &bytes, sizeof(bytes));
  return out + num_bytes;
}

// One \uXXXX at `position`, or two that are a surrogate pair: steps over them.
inline uint32_t take_unicode_escape(const char*& position, const char* end) {
  const uint32_t first = hex_value(position + 2);
  position += 6;
  const bool is_high = first >= 0xD800 && first < 0xDC00;
  if (!is_high || end - position < 6 || position[0] != '\\' || position[1] != 'u') return first;
  const uint32_t second = hex_value(position + 2);
  if (second < 0xDC00 || second >= 0xE000) return first;  // stays, and is looked at on its own
  position += 6;
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

// Writes what the \uXXXX at `position`, or the pair of two, stands for, and steps over it.
inline char* unescape_unicode(const char*& position, const char* end, char* out,
                              int64_t& num_replaced) {
  uint32_t code_point = take_unicode_escape(position, end);
  if (code_point >= 0xD800 && code_point < 0xE000) {
    code_point = 0xFFFD;
    ++num_replaced;
  }
  return write_utf8(code_point, out);
}

// Goes on with a string byte by byte, from `position` on, which is not within an escape. The vector
// functions end here wherever something is wrong, so that there is one place that says what.
StringEnd finish_string_end(const char* begin, const char* position, const char* end,
                            bool has_escapes);

#if defined(__x86_64__)
StringEnd find_string_end_avx2(const char* begin, const char* end);
StringEnd find_string_end_avx512(const char* begin, const char* end);
char* unescape_string_avx2(std::string_view raw, char* out, int64_t& num_replaced);
char* unescape_string_avx512(std::string_view raw, char* out, int64_t& num_replaced);
#elif defined(__aarch64__)
StringEnd find_string_end_neon(const char* begin, const char* end);
char* unescape_string_neon(std::string_view raw, char* out, int64_t& num_replaced);
#endif

}  // namespace weft
