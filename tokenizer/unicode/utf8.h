// One character of UTF-8, read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

struct CodePoint {
  uint32_t value;
  uint8_t num_bytes;
};

// The value of a byte that is not part of valid UTF-8.
inline constexpr uint32_t kNotACodePoint = 0xFFFFFFFF;

inline bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Reads the character at `p`, which starts with a byte >= 0x80; the text ends at `end`. Overlong
// forms, surrogates and values above U+10FFFF are as invalid as a stray byte: one of one byte.
inline CodePoint non_ascii_code_point_at(const uint8_t* p, const uint8_t* end) {
  constexpr CodePoint kInvalid = {kNotACodePoint, 1};
  const ptrdiff_t num_left = end - p;
  const uint32_t lead = p[0];
  if (lead < 0xC2 || num_left < 2 || !is_continuation(p[1])) return kInvalid;
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (p[1] & 0x3Fu), 2};
  if (num_left < 3 || !is_continuation(p[2])) return kInvalid;
  if (lead < 0xF0) {
    const uint32_t code_point = (lead & 0xF) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    if (code_point < 0x800 || (code_point >= 0xD800 && code_point < 0xE000)) return kInvalid;
    return {code_point, 3};
  }
  if (lead > 0xF4 || num_left < 4 || !is_continuation(p[3])) return kInvalid;
  const uint32_t code_point =
      (lead & 7) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  if (code_point < 0x10000 || code_point >= 0x110000) return kInvalid;
  return {code_point, 4};
}

inline CodePoint code_point_at(const uint8_t* p, const uint8_t* end) {
  return *p < 0x80 ? CodePoint{*p, 1} : non_ascii_code_point_at(p, end);
}

inline void append_utf8(uint32_t code_point, std::string& text) {
  const auto append = [&text](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto append_rest = [&](int shift) { append(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) return append(code_point);
  if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
  } else if (code_point < 0x10000) {
    append(0xE0 | code_point >> 12);
    append_rest(6);
  } else {
    append(0xF0 | code_point >> 18);
    append_rest(12);
    append_rest(6);
  }
  append_rest(0);
}

}  // namespace weft
