// One character of UTF-8, read and written.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace weft {

static_assert(std::endian::native == std::endian::little, "a character is loaded as one number");

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
  // One load for all bytes; those behind the text are 0, which continues no character.
  uint32_t bytes = 0;
  if (end - p >= 4) {
    std::memcpy(&bytes, p, 4);
  } else {
    std::memcpy(&bytes, p, static_cast<size_t>(end - p));
  }
  const uint32_t lead = bytes & 0xFF;
  const auto continues = [bytes](int i) { return (bytes >> 8 * i & 0xC0) == 0x80; };
  const auto bits_of = [bytes](int i) { return bytes >> 8 * i & 0x3F; };
  if (lead < 0xC2 || !continues(1)) return kInvalid;
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | bits_of(1), 2};
  if (!continues(2)) return kInvalid;
  if (lead < 0xF0) {
    const uint32_t code_point = (lead & 0xF) << 12 | bits_of(1) << 6 | bits_of(2);
    if (code_point < 0x800 || (code_point >= 0xD800 && code_point < 0xE000)) return kInvalid;
    return {code_point, 3};
  }
  if (lead > 0xF4 || !continues(3)) return kInvalid;
  const uint32_t code_point = (lead & 7) << 18 | bits_of(1) << 12 | bits_of(2) << 6 | bits_of(3);
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
