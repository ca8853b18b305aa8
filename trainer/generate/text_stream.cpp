#include "trainer/generate/text_stream.h"

#include <algorithm>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

namespace {

// Returns how many bytes a character has that begins with this one; 1 for bytes that begin none.
size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

// Returns the size of `text` without a character at its end that lacks bytes.
size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t begin = text.size() - back;
    if ((static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) continue;
    return character_bytes(text[begin]) > back ? begin : text.size();
  }
  return text.size();
}

}  // namespace

size_t TextStream::num_certain() const {
  const std::string_view text = text_;
  size_t end = text.size();
  if (!stop_.empty()) {
    const size_t most = std::min(stop_.size() - 1, text.size());
    for (size_t size = most; size > 0; --size) {
      if (!text.ends_with(std::string_view(stop_).substr(0, size))) continue;
      end = text.size() - size;
      break;
    }
  }
  return whole_characters(text.substr(0, end));
}

std::string TextStream::take(size_t end) {
  if (end <= num_shown_) return "";
  const std::string piece = text_.substr(num_shown_, end - num_shown_);
  num_shown_ = end;
  return piece;
}

std::string TextStream::add(std::string_view bytes) {
  if (has_stopped_) return "";
  const size_t first = text_.size() - std::min(text_.size(), stop_.size());
  text_ += bytes;
  const size_t found = stop_.empty() ? std::string::npos : text_.find(stop_, first);
  if (found == std::string::npos) return take(num_certain());
  text_.resize(found);
  has_stopped_ = true;
  return finish();
}

std::string TextStream::finish() { return take(text_.size()); }

std::string printable(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string out;
  while (!text.empty()) {
    const size_t size = character_bytes(text[0]);
    const bool is_whole = size <= text.size() && num_valid_utf8_bytes(text.substr(0, size)) == size;
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool is_control =
        (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ||
        (is_whole && size == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    out += is_whole && !is_control ? text.substr(0, size) : kReplacement;
    text.remove_prefix(is_whole ? size : 1);
  }
  return out;
}

}  // namespace weft
