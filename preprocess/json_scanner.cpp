#include "preprocess/json_scanner.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "preprocess/json_line.h"

namespace weft {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighs = 0x8080808080808080;

// The high bit of each byte of `word` that is zero. Bytes above a zero one may be marked wrongly:
// use the lowest mark.
constexpr uint64_t zero_bytes(uint64_t word) { return (word - kOnes) & ~word & kHighs; }

// The first byte that is a quote, a backslash or a control character, which end the plain part of a
// string.
const char* find_string_stop(const char* position, const char* end) {
  static_assert(std::endian::native == std::endian::little, "the lowest mark is the first byte");
  for (; end - position >= 8; position += 8) {
    uint64_t word;
    std::memcpy(&word, position, 8);
    const uint64_t controls = (word - kOnes * 0x20) & ~word & kHighs;
    const uint64_t stops =
        zero_bytes(word ^ (kOnes * '"')) | zero_bytes(word ^ (kOnes * '\\')) | controls;
    if (stops != 0) return position + std::countr_zero(stops) / 8;
  }
  while (position != end && *position != '"' && *position != '\\' &&
         static_cast<uint8_t>(*position) >= 0x20) {
    ++position;
  }
  return position;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

bool JsonScanner::fail(const char* why) {
  error_ = why;
  return false;
}

void JsonScanner::skip_space() {
  while (position_ != end_ &&
         (*position_ == ' ' || *position_ == '\t' || *position_ == '\n' || *position_ == '\r')) {
    ++position_;
  }
}

bool JsonScanner::take(char expected) {
  if (position_ == end_ || *position_ != expected) return false;
  ++position_;
  return true;
}

bool JsonScanner::value() {
  JsonString ignored;
  JsonArray ignored_array;
  switch (peek()) {
    case '"':
      return string(ignored);
    case '{':
      return object();
    case '[':
      return array(ignored_array);
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      return literal("null");
    case 'N':
      return literal("NaN");
    case 'I':
      return literal("Infinity");
    default:
      return number();
  }
}

bool JsonScanner::object() {
  if (++depth_ > kMaxJsonDepth) return fail("nested too deeply");
  ++position_;
  skip_space();
  if (!take('}')) {
    do {
      skip_space();
      JsonString key;
      if (peek() != '"') return fail("expected a property name in double quotes");
      if (!string(key)) return false;
      skip_space();
      if (!take(':')) return fail("expected ':'");
      skip_space();
      if (!value()) return false;
      skip_space();
    } while (take(','));
    if (!take('}')) return fail("expected ',' or '}'");
  }
  --depth_;
  return true;
}

bool JsonScanner::array(JsonArray& out) {
  if (++depth_ > kMaxJsonDepth) return fail("nested too deeply");
  const char* start = ++position_;
  out.only_strings = true;
  skip_space();
  if (!take(']')) {
    do {
      skip_space();
      if (out.only_strings && peek() != '"') {
        out.only_strings = false;
        out.first_other = position();
      }
      if (!value()) return false;
      skip_space();
    } while (take(','));
    if (!take(']')) return fail("expected ',' or ']'");
  }
  out.raw = {start, static_cast<size_t>(position_ - start - 1)};
  --depth_;
  return true;
}

bool JsonScanner::literal(std::string_view word) {
  if (std::string_view(position_, end_ - position_).substr(0, word.size()) != word)
    return fail("expected a value");
  position_ += word.size();
  return true;
}

bool JsonScanner::digits() {
  const char* start = position_;
  while (position_ != end_ && is_digit(*position_)) ++position_;
  return position_ != start;
}

// A fraction or an exponent without digits is no part of the number: what follows it then fails, as
// in Python.
bool JsonScanner::number() {
  const bool negative = take('-');
  if (negative && peek() == 'I') return literal("Infinity");
  if (!take('0') && !digits()) return fail("expected a value");
  const char* whole = position_;
  if (take('.') && !digits()) position_ = whole;
  const char* mantissa = position_;
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (!digits()) position_ = mantissa;
  }
  return true;
}

bool JsonScanner::string(JsonString& out) {
  const char* start = ++position_;
  out.has_escapes = false;
  for (;;) {
    position_ = find_string_stop(position_, end_);
    if (position_ == end_) {
      position_ = start - 1;
      return fail("a string that starts here has no end");
    }
    if (*position_ == '"') break;
    if (*position_ != '\\') return fail("a raw control character inside a string");
    out.has_escapes = true;
    if (!escape()) return false;
  }
  out.raw = {start, static_cast<size_t>(position_ - start)};
  ++position_;
  return true;
}

bool JsonScanner::escape() {
  if (end_ - position_ < 2) return fail("a backslash at the end of the line");
  const char kind = position_[1];
  if (kind == 'u') {
    if (end_ - position_ < 6) return fail("a \\u escape without four hexadecimal digits");
    for (int i = 2; i < 6; ++i) {
      if (!is_hex_digit(position_[i])) return fail("a \\u escape without four hexadecimal digits");
    }
    position_ += 6;
    return true;
  }
  if (kind == '\0' || std::strchr("\"\\/bfnrt", kind) == nullptr) return fail("an unknown escape");
  position_ += 2;
  return true;
}

}  // namespace weft
