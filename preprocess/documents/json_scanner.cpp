#include "preprocess/documents/json_scanner.h"

#include <algorithm>

#include "preprocess/documents/json_line.h"
#include "preprocess/documents/json_string.h"
#include "preprocess/documents/release_memory.h"

namespace weft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool JsonScanner::fail(const char* why) {
  error_ = why;
  return false;
}

void JsonScanner::give_back_passed() {
  if (kept_bytes_ == 0 || static_cast<size_t>(position_ - kept_) < kept_bytes_) return;
  give_pages_back({kept_, static_cast<size_t>(position_ - kept_)});
  kept_ = position_;
}

template <typename IsOne>
void JsonScanner::skip(const IsOne& is_one) {
  for (;;) {
    const char* const until =
        kept_bytes_ == 0 ? end_ : position_ + std::min<size_t>(kept_bytes_, end_ - position_);
    while (position_ != until && is_one(*position_)) ++position_;
    if (position_ == end_ || position_ != until) return;
    give_back_passed();
  }
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
  give_back_passed();
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

// The end of the string whose opening quote is at the position. A long one is looked at part by
// part, each as if it were a string without end.
StringEnd JsonScanner::find_end_of_string() {
  const char* const quote = position_;
  bool has_escapes = false;
  for (const char* part = quote + 1;;) {
    const std::string_view rest(part, static_cast<size_t>(end_ - part));
    const size_t cut = kept_bytes_ == 0 || rest.size() <= kept_bytes_
                           ? rest.size()
                           : cut_of_string(rest, kept_bytes_);
    StringEnd found = find_string_end(part, part + cut);
    found.has_escapes |= has_escapes;
    const bool has_no_end = found.error != nullptr && found.position == part - 1;
    if (has_no_end && cut == rest.size()) found.position = quote;
    if (!has_no_end || cut == rest.size()) return found;
    has_escapes = found.has_escapes;
    position_ = part += cut;
    give_back_passed();
  }
}

bool JsonScanner::string(JsonString& out) {
  const char* start = position_ + 1;
  const StringEnd found = find_end_of_string();
  position_ = found.position;
  if (found.error != nullptr) return fail(found.error);
  out.raw = {start, static_cast<size_t>(position_ - start)};
  out.has_escapes = found.has_escapes;
  ++position_;
  return true;
}

}  // namespace weft
