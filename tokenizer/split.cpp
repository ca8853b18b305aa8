#include "tokenizer/split.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode_classes.h"

namespace weft {
namespace {

// Class of an ASCII byte, or kNotAscii: one load decides almost every character of English text and
// code.
constexpr uint8_t kNotAscii = 4;

constexpr std::array<uint8_t, 256> make_byte_classes() {
  std::array<uint8_t, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    CharClass char_class = CharClass::kOther;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) char_class = CharClass::kLetter;
    if (c >= '0' && c <= '9') char_class = CharClass::kNumber;
    if (c == ' ' || (c >= 9 && c <= 13)) char_class = CharClass::kSpace;
    classes[c] = c < 0x80 ? static_cast<uint8_t>(char_class) : kNotAscii;
  }
  return classes;
}

constexpr std::array<uint8_t, 256> kByteClasses = make_byte_classes();

struct Char {
  CharClass char_class;
  uint8_t num_bytes;
};

bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The character at `p`, which starts with a byte >= 0x80. Overlong forms, surrogates and values
// above U+10FFFF are as invalid as a stray byte.
Char non_ascii_char_at(const uint8_t* p, const uint8_t* end) {
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

Char char_at(const uint8_t* p, const uint8_t* end) {
  const uint8_t byte_class = kByteClasses[*p];
  if (byte_class != kNotAscii) return {static_cast<CharClass>(byte_class), 1};
  return non_ascii_char_at(p, end);
}

// End of the run of characters of this class that goes on at `p`.
const uint8_t* run_end(const uint8_t* p, const uint8_t* end, CharClass char_class) {
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

// `\s+(?!\S)|\s+`: a run at the end of the text is one piece; before anything else its last
// character is left for the next piece, unless it is the only one.
const uint8_t* white_space_end(const uint8_t* p, const uint8_t* end) {
  const uint8_t* const begin = p;
  const uint8_t* last = p;
  while (p < end) {
    const Char c = char_at(p, end);
    if (c.char_class != CharClass::kSpace) return last == begin ? p : last;
    last = p;
    p += c.num_bytes;
  }
  return p;
}

// Length of the contraction that starts with the apostrophe at `p`, or 0. Lower case only, as
// released.
size_t contraction_bytes(const uint8_t* p, const uint8_t* end) {
  if (end - p < 2) return 0;
  const uint8_t a = p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  const uint8_t b = p[2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

const uint8_t* piece_end(const uint8_t* p, const uint8_t* end) {
  if (*p == ' ' && p + 1 < end) {
    const Char next = char_at(p + 1, end);
    if (next.char_class == CharClass::kSpace) return white_space_end(p, end);
    return run_end(p + 1 + next.num_bytes, end, next.char_class);
  }
  if (*p == '\'') {
    if (const size_t num_bytes = contraction_bytes(p, end)) return p + num_bytes;
  }
  const Char first = char_at(p, end);
  if (first.char_class == CharClass::kSpace) return white_space_end(p, end);
  return run_end(p + first.num_bytes, end, first.char_class);
}

}  // namespace

size_t split_pieces(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = data + text.size();
  const uint8_t* p = data + begin;
  size_t num_pieces = 0;
  while (num_pieces < max_pieces && p < end) {
    p = piece_end(p, end);
    ends[num_pieces++] = static_cast<size_t>(p - data);
  }
  return num_pieces;
}

}  // namespace weft
