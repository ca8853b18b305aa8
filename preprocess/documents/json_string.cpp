#include "preprocess/documents/json_string.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft {
namespace {

// Of \uXXXX.
constexpr ptrdiff_t kUnicodeEscapeBytes = 6;

// The first quote, backslash or control character, which end the plain part of a string. Eight
// bytes at a time: the high bit of each byte of a mark is set where the byte is one of them.
const char* find_stop(const char* position, const char* end) {
  static_assert(std::endian::native == std::endian::little, "the lowest mark is the first byte");
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  for (; end - position >= 8; position += 8) {
    uint64_t word;
    std::memcpy(&word, position, sizeof(word));
    // Bytes above the lowest mark may be marked wrongly.
    const auto marks_below = [](uint64_t bytes, uint64_t limit) {
      return (bytes - kOnes * limit) & ~bytes & kHighs;
    };
    const uint64_t stops = marks_below(word, 0x20) | marks_below(word ^ (kOnes * '"'), 1) |
                           marks_below(word ^ (kOnes * '\\'), 1);
    if (stops != 0) return position + std::countr_zero(stops) / 8;
  }
  while (position != end && *position != '"' && *position != '\\' &&
         static_cast<uint8_t>(*position) >= 0x20) {
    ++position;
  }
  return position;
}

// What the character behind a backslash stands for; 0 for `u` and for what is no escape.
char simple_escape(char kind) {
  switch (kind) {
    case '"':
    case '\\':
    case '/':
      return kind;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return 0;
  }
}

// The value of a hexadecimal digit; -1 for what is none.
int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int letter = c | 0x20;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool is_unicode_escape(const char* position, const char* end) {
  return end - position >= kUnicodeEscapeBytes && position[0] == '\\' && position[1] == 'u' &&
         std::all_of(position + 2, position + 6, [](char c) { return digit_value(c) >= 0; });
}

// The number in the \uXXXX at `position`.
uint32_t escaped_number(const char* position) {
  uint32_t number = 0;
  for (int i = 2; i < 6; ++i)
    number = number << 4 | static_cast<uint32_t>(digit_value(position[i]));
  return number;
}

bool is_high_surrogate(uint32_t number) { return number >= 0xD800 && number < 0xDC00; }
bool is_low_surrogate(uint32_t number) { return number >= 0xDC00 && number < 0xE000; }

// Steps over the escape at `position`; says what is wrong with it, nullptr if nothing is.
const char* skip_escape(const char*& position, const char* end) {
  if (end - position < 2) return "a backslash at the end of the line";
  if (position[1] == 'u') {
    if (!is_unicode_escape(position, end)) return "a \\u escape without four hexadecimal digits";
    position += kUnicodeEscapeBytes;
    return nullptr;
  }
  if (simple_escape(position[1]) == 0) return "an unknown escape";
  position += 2;
  return nullptr;
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto add = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) return add(code_point);
  if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      add(0xE0 | code_point >> 12);
    } else {
      add(0xF0 | code_point >> 18);
      add(0x80 | (code_point >> 12 & 0x3F));
    }
    add(0x80 | (code_point >> 6 & 0x3F));
  }
  add(0x80 | (code_point & 0x3F));
}

// Appends what the \uXXXX at `position`, or the surrogate pair of two, stands for, and steps over
// it. True for a lone surrogate.
bool unescape_unicode(const char*& position, const char* end, std::string& out) {
  uint32_t code_point = escaped_number(position);
  position += kUnicodeEscapeBytes;
  if (is_high_surrogate(code_point) && is_unicode_escape(position, end)) {
    // A second high one stays, and is looked at on its own.
    if (const uint32_t low = escaped_number(position); is_low_surrogate(low)) {
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
      position += kUnicodeEscapeBytes;
    }
  }
  const bool is_lone = is_high_surrogate(code_point) || is_low_surrogate(code_point);
  append_utf8(is_lone ? 0xFFFD : code_point, out);
  return is_lone;
}

// True if the backslash at `at` begins an escape: an even number of them comes before it.
bool begins_escape(std::string_view raw, size_t at) {
  size_t begin = at;
  while (begin > 0 && raw[begin - 1] == '\\') --begin;
  return (at - begin) % 2 == 0;
}

}  // namespace

StringEnd find_string_end(const char* begin, const char* end) {
  bool has_escapes = false;
  for (const char* position = begin;;) {
    position = find_stop(position, end);
    if (position == end) return {begin - 1, "a string that starts here has no end", has_escapes};
    if (*position == '"') return {position, nullptr, has_escapes};
    if (*position != '\\')
      return {position, "a raw control character inside a string", has_escapes};
    has_escapes = true;
    if (const char* error = skip_escape(position, end)) return {position, error, true};
  }
}

int64_t unescape_json(std::string_view raw, std::string& out) {
  int64_t num_replaced = 0;
  const char* const end = raw.data() + raw.size();
  for (const char* position = raw.data(); position != end;) {
    const void* found = std::memchr(position, '\\', static_cast<size_t>(end - position));
    const char* const escape = found != nullptr ? static_cast<const char*>(found) : end;
    out.append(position, escape);
    position = escape;
    if (position == end) break;
    if (position[1] == 'u') {
      num_replaced += unescape_unicode(position, end, out) ? 1 : 0;
    } else {
      out += simple_escape(position[1]);
      position += 2;
    }
  }
  return num_replaced;
}

size_t cut_of_string(std::string_view raw, size_t at) {
  constexpr size_t kUnicodeBytes = kUnicodeEscapeBytes;
  if (at == raw.size()) return at;
  while (at > 0 && (raw[at] & 0xC0) == 0x80) --at;
  // The last backslash that may begin an escape which reaches `at`.
  const size_t from = at - std::min(at, kUnicodeBytes - 1);
  const size_t backslash = raw.substr(from, at - from).rfind('\\');
  if (backslash != raw.npos && begins_escape(raw, from + backslash)) {
    const bool is_unicode = raw[from + backslash + 1] == 'u';
    if (from + backslash + (is_unicode ? kUnicodeBytes : 2) > at) at = from + backslash;
  }
  if (at < kUnicodeBytes) return at;
  const char* const second = raw.data() + at;
  const char* const first = second - kUnicodeEscapeBytes;
  const char* const end = raw.data() + raw.size();
  const bool is_pair = is_unicode_escape(first, end) && is_unicode_escape(second, end) &&
                       is_high_surrogate(escaped_number(first)) &&
                       is_low_surrogate(escaped_number(second)) &&
                       begins_escape(raw, at - kUnicodeBytes);
  return is_pair ? at - kUnicodeBytes : at;
}

}  // namespace weft
