// Checks the grammar of JSON text as Python's json.loads does (exact_json_line.h), without building
// values, and says what its strings stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft {

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
  bool value();
  // At the opening quote. `raw` is what lies between the quotes.
  bool string(std::string_view& raw);
  // At an opening brace. Calls use_member, if there is one, with each name (between its quotes) and
  // value as they stand in the text.
  using UseMember = std::function<void(std::string_view name, std::string_view value)>;
  bool object(const UseMember& use_member = {});
  // At an opening bracket. Calls use_element, if there is one, with each value as it stands.
  using UseElement = std::function<void(std::string_view value)>;
  bool array(const UseElement& use_element = {});
  bool fail(const char* why);

  const char* error() const { return error_; }
  bool is_nested_too_deeply() const { return is_nested_too_deeply_; }
  size_t position() const { return static_cast<size_t>(position_ - begin_); }

 private:
  template <typename IsOne>
  void skip(const IsOne& is_one);
  bool take(char expected);
  bool skip_escape();
  bool number();
  bool literal(std::string_view word);
  bool digits();
  std::string_view text_from(const char* begin) const {
    return {begin, static_cast<size_t>(position_ - begin)};
  }

  const char* begin_;
  const char* position_;
  const char* end_;
  const char* error_ = "";
  int depth_ = 0;
  bool is_nested_too_deeply_ = false;
};

// Takes the beginning of a JSON string from `raw`, which lies between quotes and is valid, and
// appends what it stands for to `out`: whole characters, until `out` has `max_bytes` or a few more.
// Returns the number of lone surrogate escapes, each of which becomes U+FFFD.
int64_t unescape_json(std::string_view& raw, size_t max_bytes, std::string& out);

// The value of the last member of this name in a valid JSON object; "" if there is none, or if
// `value` is no object.
std::string_view find_member(std::string_view value, std::string_view name);

// True if a name, as it stands between its quotes, is `name`.
bool is_name(std::string_view raw, std::string_view name);

}  // namespace weft
