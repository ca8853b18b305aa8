// Checks the grammar of JSON text as Python's json.loads does (exact_json_line.h), without building
// values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "preprocess/documents/json_string.h"

namespace weft {

struct JsonString {
  std::string_view raw;  // between the quotes
  bool has_escapes = false;
};

// What a key stands for: itself, or its unescaped text in `buffer`.
std::string_view unescaped_key(const JsonString& key, std::string& buffer);

// What an array holds, for those who want an array of strings.
struct JsonArray {
  std::string_view raw;      // between the brackets
  bool only_strings = true;  // so for the empty array
  size_t first_other = 0;    // position in the line of the first element that is none
};

// Deeper nesting is refused, as by Python, whose parser gives up at its recursion limit of 1000.
constexpr int kMaxJsonDepth = 990;

// Walks over one JSON text. Every function returns false at the first error; error() and position()
// then say what and where. Recursion is bounded by kMaxJsonDepth.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text)
      : begin_(text.data()), position_(text.data()), end_(text.data() + text.size()) {}

  void skip_space();
  bool at_end() const { return position_ == end_; }
  // The next byte, '\0' at the end (where a real NUL is an error as well).
  char peek() const { return position_ == end_ ? '\0' : *position_; }
  bool take(char expected);  // steps over `expected` if it comes next
  bool value();
  bool string(JsonString& out);  // position at the opening quote
  bool array(JsonArray& out);    // position at the opening bracket
  // Position at the opening brace. Calls read_value(key) at the value of every member, which steps
  // over it and returns whether it could.
  template <typename ReadValue>
  bool object(const ReadValue& read_value);
  // As object(), but without counting its depth: for the line's own.
  template <typename ReadValue>
  bool members(const ReadValue& read_value);
  bool fail(const char* why);

  const char* error() const { return error_; }
  size_t position() const { return static_cast<size_t>(position_ - begin_); }

 private:
  bool go_deeper();
  template <typename IsOne>
  void skip(const IsOne& is_one);
  bool number();
  bool literal(std::string_view word);
  bool digits();

  const char* begin_;
  const char* position_;
  const char* end_;
  const char* error_ = "";
  int depth_ = 0;
};

template <typename ReadValue>
bool JsonScanner::object(const ReadValue& read_value) {
  if (!go_deeper() || !members(read_value)) return false;
  --depth_;
  return true;
}

template <typename ReadValue>
bool JsonScanner::members(const ReadValue& read_value) {
  ++position_;
  skip_space();
  if (take('}')) return true;
  do {
    skip_space();
    JsonString key;
    if (peek() != '"') return fail("expected a property name in double quotes");
    if (!string(key)) return false;
    skip_space();
    if (!take(':')) return fail("expected ':'");
    skip_space();
    if (!read_value(key)) return false;
    skip_space();
  } while (take(','));
  return take('}') || fail("expected ',' or '}'");
}

}  // namespace weft
