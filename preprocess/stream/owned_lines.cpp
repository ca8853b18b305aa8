#include "preprocess/stream/owned_lines.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace weft {
namespace {

// Small: behind the range's end only the rest of one line is wanted.
constexpr size_t kBlockBytes = 64 << 10;

}  // namespace

OwnedLines::OwnedLines(std::unique_ptr<ByteSource> range, OpenRest open_rest, bool owns_first_line)
    : range_(std::move(range)), open_rest_(std::move(open_rest)), format_(range_->format()) {
  if (!owns_first_line) skip_to_first_line();
}

void OwnedLines::skip_to_first_line() {
  std::string block(kBlockBytes, '\0');
  bool after_carriage_return = false;
  for (;;) {
    const size_t got = range_->read(block.data(), block.size());
    if (got == 0) break;
    const std::string_view text(block.data(), got);
    size_t start = 0;
    if (after_carriage_return) {
      start = text[0] == '\n' ? 1 : 0;
    } else {
      const size_t line_end = text.find_first_of("\r\n");
      if (line_end == std::string_view::npos) {
        num_range_bytes_ += static_cast<int64_t>(got);
        continue;
      }
      start = line_end + 1;
      if (text[line_end] == '\r' && start == got) {
        after_carriage_return = true;  // its "\n" may come with the next read
        num_range_bytes_ += static_cast<int64_t>(got);
        continue;
      }
      if (text[line_end] == '\r' && text[start] == '\n') ++start;
    }
    first_offset_bytes_ = num_range_bytes_ + static_cast<int64_t>(start);
    num_range_bytes_ += static_cast<int64_t>(got);
    carried_.assign(text.begin() + static_cast<std::ptrdiff_t>(start), text.end());
    return;
  }
  // The range ends before a line end, or with "\r": then the line behind it is ours, unless "\n" is
  // still to come.
  first_offset_bytes_ = num_range_bytes_;
  enter_rest();
  is_at_end_ = !after_carriage_return || rest_starts_with_newline();
}

// The range's decoder makes room for that of the rest.
void OwnedLines::enter_rest() {
  is_in_rest_ = true;
  num_bytes_taken_ = range_->num_bytes_taken();
  range_.reset();
}

bool OwnedLines::rest_starts_with_newline() {
  if (!open_rest_) return true;  // nothing behind: no line either
  rest_ = open_rest_();
  carried_.resize(1);
  carried_.resize(rest_->read(carried_.data(), 1));
  return carried_.empty() || carried_[0] == '\n';
}

size_t OwnedLines::read(char* data, size_t size_bytes) {
  if (is_at_end_ || size_bytes == 0) return 0;
  if (!is_in_rest_) {
    const size_t got = read_range(data, size_bytes);
    if (got > 0) return got;
    enter_rest();
    if (!open_rest_) is_at_end_ = true;
    if (is_at_end_) return 0;
  }
  return read_rest(data, size_bytes);
}

size_t OwnedLines::read_range(char* data, size_t size_bytes) {
  if (!carried_.empty()) {
    return take_carried(data, size_bytes);
  }
  const size_t got = range_->read(data, size_bytes);
  num_range_bytes_ += static_cast<int64_t>(got);
  return got;
}

size_t OwnedLines::take_carried(char* data, size_t size_bytes) {
  const size_t count = std::min(carried_.size(), size_bytes);
  std::copy_n(carried_.begin(), count, data);
  carried_.erase(carried_.begin(), carried_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

// Up to and with the first line end.
size_t OwnedLines::read_rest(char* data, size_t size_bytes) {
  if (rest_ == nullptr) rest_ = open_rest_();
  // A "\r" is given out with the byte behind it, which shows whether a "\n" belongs to it.
  if (carried_.size() == 1 && carried_[0] == '\r') {
    char next = 0;
    data[0] = '\r';
    is_at_end_ = rest_->read(&next, 1) == 0 || next != '\n';
    carried_.assign(is_at_end_ ? 0 : 1, '\n');
    return 1;
  }
  size_t got = take_carried(data, size_bytes);
  if (got == 0) got = rest_->read(data, std::min(size_bytes, kBlockBytes));
  const std::string_view text(data, got);
  const size_t line_end = text.find_first_of("\r\n");
  if (got == 0) is_at_end_ = true;
  if (line_end == std::string_view::npos) return got;
  if (text[line_end] == '\r' && line_end + 1 == got) {
    carried_.assign(1, '\r');
    return line_end > 0 ? line_end : read_rest(data, size_bytes);
  }
  is_at_end_ = true;
  const bool is_pair = text[line_end] == '\r' && text[line_end + 1] == '\n';
  return line_end + (is_pair ? 2 : 1);
}

}  // namespace weft
