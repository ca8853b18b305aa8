#include "preprocess/documents/json_scanner.h"

#include "preprocess/documents/json_string.h"

namespace weft {
namespace {

// Names that are wanted come from a command line. Copies of hostile ones of megabytes are not made.
constexpr size_t kMaxKeyBytes = 1 << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view unescaped_key(const JsonString& key, std::string& buffer) {
  if (!key.has_escapes || key.raw.size() > kMaxKeyBytes) return key.raw;
  buffer.clear();
  unescape_json(key.raw, buffer);
  return buffer;
}

bool JsonScanner::fail(const char* why) {
  error_ = why;
  return false;
}

template <typename IsOne>
void JsonScanner::skip(const IsOne& is_one) {
  while (position_ != end_ && is_one(*position_)) ++position_;
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
  JsonString ignored;
  JsonArray ignored_array;
  switch (peek()) {
    case '"':
      return string(ignored);
    case '{':
      return object([this](const JsonString&) { return value(); });
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

bool JsonScanner::go_deeper() { return ++depth_ <= kMaxJsonDepth || fail("nested too deeply"); }

bool JsonScanner::array(JsonArray& out) {
  if (!go_deeper()) return false;
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

bool JsonScanner::string(JsonString& out) {
  const char* start = position_ + 1;
  const StringEnd found = find_string_end(start, end_);
  position_ = found.position;
  if (found.error != nullptr) return fail(found.error);
  out.raw = {start, static_cast<size_t>(position_ - start)};
  out.has_escapes = found.has_escapes;
  ++position_;
  return true;
}

}  // namespace weft
