// A pattern is looked for in texts: a regular expression, or a text byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace weft {

// Thread-safe after construction.
class TextPattern {
 public:
  // A regular expression has RE2's syntax (github.com/google/re2/wiki/Syntax) in UTF-8: `^` and `$`
  // stand at the ends of lines, and `.` is a character within one. Bytes that are no UTF-8 match no
  // character; the text around them is searched as any other. Throws UsageError with
  // RE2's message for an expression that is none.
  TextPattern(const std::string& pattern, bool is_fixed);
  TextPattern(TextPattern&&) noexcept;
  ~TextPattern();

  bool is_in(std::string_view text) const;
  struct Match {
    size_t begin = 0, end = 0;  // in bytes
    bool operator==(const Match&) const = default;
  };
  // Returns the first match that begins at byte `from` or later. The bytes before it are seen by
  // `^` and `\b`.
  std::optional<Match> find(std::string_view text, size_t from = 0) const;
  // Returns the number of matches that follow each other without a common byte.
  int64_t count(std::string_view text) const;
  // Returns the length of all matches in bytes; nothing for an expression.
  std::optional<size_t> fixed_size() const;

 private:
  std::string fixed_;
  std::unique_ptr<const re2::RE2> expression_;  // null for a fixed text
};

}  // namespace weft
