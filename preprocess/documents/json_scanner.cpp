#include "preprocess/documents/json_scanner.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace weft {
namespace {

// An escaped UTF-16 number has a backslash, a `u` and four hexadecimal digits.
constexpr size_t kUnicodeEscapeBytes = 6;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_high_surrogate(uint32_t number) { return number >= 0xD800 && number < 0xDC00; }
bool is_low_surrogate(uint32_t number) { return number >= 0xDC00 && number < 0xE000; }

// Returns the meaning of the character behind a backslash; 0 for `u` and for what is no escape.
char simple_escape(char kind) {
  constexpr std::string_view kKinds = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const size_t found = kKinds.find(kind);
  return found == kKinds.npos ? '\0' : kMeanings[found];
}

// Returns the number of the escape that `text` begins with, or nothing if it begins otherwise.
std::optional<uint32_t> escaped_number(std::string_view text) {
  if (text.size() < kUnicodeEscapeBytes || !text.starts_with("\\u")) return std::nullopt;
  uint32_t number = 0;
  const char *const digits = text.data() + 2, *const end = text.data() + kUnicodeEscapeBytes;
  const bool is_number = std::from_chars(digits, end, number, 16).ptr == end;
  return is_number ? std::optional(number) : std::nullopt;
}

void append_utf8(uint32_t code_point, std::string& out) {
  const int num_more = code_point < 0x80      ? 0
                       : code_point < 0x800   ? 1
                       : code_point < 0x10000 ? 2
                                              : 3;
  constexpr uint32_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLeads[num_more] | code_point >> 6 * num_more);
  for (int i = num_more; i-- > 0;) {
    out += static_cast<char>(0x80 | (code_point >> 6 * i & 0x3F));
  }
}

// Takes the escape that `raw` begins with, which may be a surrogate pair of two. True for a lone
// surrogate.
bool unescape_one(std::string_view& raw, std::string& out) {
  const std::optional<uint32_t> number = escaped_number(raw);
  if (!number) {
    out += simple_escape(raw[1]);
    raw.remove_prefix(2);
    return false;
  }
  raw.remove_prefix(kUnicodeEscapeBytes);
  // A second high surrogate stays, and is looked at on its own.
  const std::optional<uint32_t> low = escaped_number(raw);
  if (is_high_surrogate(*number) && low && is_low_surrogate(*low)) {
    append_utf8(0x10000 + ((*number - 0xD800) << 10) + (*low - 0xDC00), out);
    raw.remove_prefix(kUnicodeEscapeBytes);
    return false;
  }
  const bool is_lone = is_high_surrogate(*number) || is_low_surrogate(*number);
  append_utf8(is_lone ? 0xFFFD : *number, out);
  return is_lone;
}

}  // namespace

int64_t unescape_json(std::string_view& raw, size_t max_bytes, std::string& out) {
  int64_t num_replaced = 0;
  while (!raw.empty() && out.size() < max_bytes) {
    const std::string_view next = raw.substr(0, max_bytes - out.size());
    size_t num_plain = std::min(next.find('\\'), next.size());
    while (num_plain < raw.size() && (raw[num_plain] & 0xC0) == 0x80) ++num_plain;
    out.append(raw, 0, num_plain);
    raw.remove_prefix(num_plain);
    if (raw.starts_with('\\')) num_replaced += unescape_one(raw, out) ? 1 : 0;
  }
  return num_replaced;
}

bool is_name(std::string_view raw, std::string_view name) {
  if (raw.find('\\') == raw.npos) return raw == name;
  std::string text;
  unescape_json(raw, name.size() + 1, text);  // no more of a hostile one of megabytes
  return raw.empty() && text == name;
}

std::string_view find_member(std::string_view value, std::string_view name) {
  std::string_view found;
  if (!value.starts_with('{')) return found;
  JsonScanner(value).object([&](std::string_view raw, std::string_view member) {
    if (is_name(raw, name)) found = member;
  });
  return found;
}

bool JsonScanner::fail(const char* why) {
  error_ = why;
  return false;
}

template <typename IsOne>
void JsonScanner::skip(const IsOne& is_one) {
  position_ = std::find_if_not(position_, end_, is_one);
}

void JsonScanner::skip_space() {
  skip([](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
}

bool JsonScanner::take(char expected) {
  if (position_ == end_ || *position_ != expected) return false;
  ++position_;
  return true;
}

bool JsonScanner::value() {
  std::string_view ignored;
  switch (peek()) {
    case '"':
      return string(ignored);
    case '{':
    case '[': {
      is_nested_too_deeply_ = ++depth_ > kMaxJsonDepth;
      if (is_nested_too_deeply_) return fail("nested too deeply");
      const bool is_valid = peek() == '{' ? object() : array();
      --depth_;
      return is_valid;
    }
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

bool JsonScanner::object(const UseMember& use_member) {
  ++position_;
  skip_space();
  if (take('}')) return true;
  do {
    skip_space();
    std::string_view name;
    if (peek() != '"') return fail("expected a property name in double quotes");
    if (!string(name)) return false;
    skip_space();
    if (!take(':')) return fail("expected ':'");
    skip_space();
    const char* const begin = position_;
    if (!value()) return false;
    if (use_member) use_member(name, text_from(begin));
    skip_space();
  } while (take(','));
  return take('}') || fail("expected ',' or '}'");
}

bool JsonScanner::array(const UseElement& use_element) {
  ++position_;
  skip_space();
  if (take(']')) return true;
  do {
    skip_space();
    const char* const begin = position_;
    if (!value()) return false;
    if (use_element) use_element(text_from(begin));
    skip_space();
  } while (take(','));
  return take(']') || fail("expected ',' or ']'");
}

bool JsonScanner::literal(std::string_view word) {
  if (!std::string_view(position_, end_ - position_).starts_with(word))
    return fail("expected a value");
  position_ += word.size();
  return true;
}

bool JsonScanner::digits() {
  const char* start = position_;
  skip(is_digit);
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

bool JsonScanner::string(std::string_view& raw) {
  const char* const begin = ++position_;
  while (true) {
    skip([](char c) { return c != '"' && c != '\\' && static_cast<uint8_t>(c) >= 0x20; });
    if (at_end()) {
      position_ = begin - 1;
      return fail("a string that starts here has no end");
    }
    if (take('"')) break;
    if (*position_ != '\\') return fail("a raw control character inside a string");
    if (!skip_escape()) return false;
  }
  raw = {begin, static_cast<size_t>(position_ - 1 - begin)};
  return true;
}

bool JsonScanner::skip_escape() {
  if (end_ - position_ < 2) return fail("a backslash at the end of the line");
  const bool is_unicode = position_[1] == 'u';
  const std::string_view rest(position_, static_cast<size_t>(end_ - position_));
  if (is_unicode && !escaped_number(rest))
    return fail("a \\u escape without four hexadecimal digits");
  if (!is_unicode && simple_escape(position_[1]) == 0) return fail("an unknown escape");
  position_ += is_unicode ? kUnicodeEscapeBytes : 2;
  return true;
}

}  // namespace weft
