// The text of generated tokens as it grows: only whole characters are shown, and nothing that a
// stop text may still take back.
#pragma once

#include <string>
#include <string_view>

namespace weft {

class TextStream {
 public:
  // The text ends before the first `stop` in it; an empty one never comes.
  explicit TextStream(std::string stop) : stop_(std::move(stop)) {}

  // Appends the bytes of a token and returns those that can be shown from now on.
  std::string add(std::string_view bytes);
  // Ends the text and returns the rest of it.
  std::string finish();

  bool has_stopped() const { return has_stopped_; }
  const std::string& text() const { return text_; }

 private:
  // Returns how many of the bytes so far are certain to stay, and to be whole characters.
  size_t num_certain() const;
  std::string take(size_t end);

  const std::string stop_;
  std::string text_;
  size_t num_shown_ = 0;
  bool has_stopped_ = false;
};

// Returns `text` with U+FFFD for bytes that are no UTF-8, and for control characters but line feeds
// and tabs, which a terminal might obey.
std::string printable(std::string_view text);

}  // namespace weft
