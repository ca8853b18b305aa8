// Characters of a text and their classes, as every pattern needs them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tokenizer/split/unicode_classes.h"

namespace weft {

// Class of an ASCII byte, or kNotAscii: one load decides almost every character of English text and
// code.
inline constexpr uint8_t kNotAscii = 4;

inline constexpr std::array<uint8_t, 256> kByteClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    CharClass char_class = CharClass::kOther;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) char_class = CharClass::kLetter;
    if (c >= '0' && c <= '9') char_class = CharClass::kNumber;
    if (c == ' ' || (c >= 9 && c <= 13)) char_class = CharClass::kSpace;
    classes[c] = c < 0x80 ? static_cast<uint8_t>(char_class) : kNotAscii;
  }
  return classes;
}();

struct Char {
  CharClass char_class;
  uint8_t num_bytes;
};

inline bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The character at `p`, which starts with a byte >= 0x80; the text ends at `end`. Overlong forms,
// surrogates and values above U+10FFFF are as invalid as a stray byte: one "other" of one byte.
inline Char non_ascii_char_at(const uint8_t* p, const uint8_t* end) {
  constexpr Char kInvalid = {CharClass::kOther, 1};
  const ptrdiff_t num_left = end - p;
  const uint32_t lead = p[0];
  if (lead < 0xC2 || num_left < 2 || !is_continuation(p[1])) return kInvalid;
  if (lead < 0xE0) return {class_of((lead & 0x1F) << 6 | (p[1] & 0x3Fu)), 2};
  if (num_left < 3 || !is_continuation(p[2])) return kInvalid;
  if (lead < 0xF0) {
    const uint32_t code_point = (lead & 0xF) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    if (code_point < 0x800 || (code_point >= 0xD800 && code_point < 0xE000)) return kInvalid;
    return {class_of(code_point), 3};
  }
  if (lead > 0xF4 || num_left < 4 || !is_continuation(p[3])) return kInvalid;
  const uint32_t code_point =
      (lead & 7) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  if (code_point < 0x10000 || code_point >= 0x110000) return kInvalid;
  return {class_of(code_point), 4};
}

inline Char char_at(const uint8_t* p, const uint8_t* end) {
  const uint8_t byte_class = kByteClasses[*p];
  if (byte_class != kNotAscii) return {static_cast<CharClass>(byte_class), 1};
  return non_ascii_char_at(p, end);
}

// Returns the end of the run of characters of this class that goes on at `p`; `p` if there is none.
inline const uint8_t* run_end(const uint8_t* p, const uint8_t* end, CharClass char_class) {
  while (p < end) {
    const uint8_t byte_class = kByteClasses[*p];
    if (byte_class == static_cast<uint8_t>(char_class)) {
      ++p;
      continue;
    }
    if (byte_class != kNotAscii) return p;
    const Char c = non_ascii_char_at(p, end);
    if (c.char_class != char_class) return p;
    p += c.num_bytes;
  }
  return p;
}

}  // namespace weft
