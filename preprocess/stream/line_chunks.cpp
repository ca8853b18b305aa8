#include "preprocess/stream/line_chunks.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace weft {
namespace {

// One past the last line end in `text` at which it may be cut; 0 if there is none. A "\r" that is
// the last byte is no such place: the "\n" that belongs to it may come next.
size_t last_cut(std::string_view text) {
  const void* newline = ::memrchr(text.data(), '\n', text.size());
  if (newline != nullptr) return static_cast<const char*>(newline) - text.data() + 1;
  if (text.empty()) return 0;
  const void* carriage_return = ::memrchr(text.data(), '\r', text.size() - 1);
  if (carriage_return != nullptr)
    return static_cast<const char*>(carriage_return) - text.data() + 1;
  return 0;
}

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

// The same behind the last blank line of `text`, which begins with a line.
size_t last_cut_at_blank_line(std::string_view text) {
  size_t end = text.ends_with('\r') ? text.size() - 1 : text.size();
  while (end > 0 && !is_line_end(text[end - 1])) --end;
  while (end > 0) {
    size_t begin = end - 1;
    if (text[begin] == '\n' && begin > 0 && text[begin - 1] == '\r') --begin;
    if (begin == 0 || is_line_end(text[begin - 1])) return end;
    while (begin > 0 && !is_line_end(text[begin - 1])) --begin;
    end = begin;
  }
  return 0;
}

size_t last_cut(SplitAt split_at, std::string_view text) {
  switch (split_at) {
    case SplitAt::kLine:
      return last_cut(text);
    case SplitAt::kBlankLine:
      return last_cut_at_blank_line(text);
    case SplitAt::kNowhere:
      return 0;
  }
  return 0;
}

size_t first_cut(SplitAt split_at, std::string_view text, bool at_end) {
  switch (split_at) {
    case SplitAt::kLine:
      return end_of_first_line(text, at_end);
    case SplitAt::kBlankLine:
      return end_of_first_blank_line(text, at_end);
    case SplitAt::kNowhere:
      return at_end ? text.size() : 0;
  }
  return 0;
}

// The first `wanted` in [begin, end), or end.
const char* find(const char* begin, const char* end, char wanted) {
  if (begin == end) return end;
  const void* found = std::memchr(begin, wanted, static_cast<size_t>(end - begin));
  return found != nullptr ? static_cast<const char*>(found) : end;
}

}  // namespace

size_t end_of_first_line(std::string_view text, bool at_end) {
  const char* const end = text.data() + text.size();
  const char* const newline = find(text.data(), end, '\n');
  const char* const carriage_return = find(text.data(), newline, '\r');
  if (carriage_return == end) return at_end ? text.size() : 0;
  if (carriage_return == newline) return static_cast<size_t>(newline - text.data()) + 1;
  if (carriage_return + 1 == end && !at_end) return 0;
  const bool both = carriage_return + 1 == newline && newline != end;
  return static_cast<size_t>(carriage_return - text.data()) + (both ? 2 : 1);
}

size_t end_of_first_blank_line(std::string_view text, bool at_end) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = end_of_first_line(text.substr(begin), at_end);
    if (end == 0) return 0;
    const bool is_blank = is_line_end(text[begin]);
    begin += end;
    if (is_blank) return begin;
  }
  return at_end ? text.size() : 0;
}

// Appends to the chunk until it holds `target_bytes` or the stream ends.
void LineChunker::read_some(LineChunk& chunk, size_t target_bytes) {
  if (chunk.buffer.size() < target_bytes) chunk.buffer.resize(target_bytes);
  const size_t num_carried =
      std::min(carried_.size() - num_taken_, target_bytes - chunk.size_bytes);
  std::copy_n(carried_.data() + num_taken_, num_carried, chunk.buffer.data() + chunk.size_bytes);
  num_taken_ += num_carried;
  chunk.size_bytes += num_carried;
  while (chunk.size_bytes < target_bytes && !source_has_ended_) {
    const size_t got =
        source_.read(chunk.buffer.data() + chunk.size_bytes, target_bytes - chunk.size_bytes);
    chunk.size_bytes += got;
    source_has_ended_ = got == 0;
  }
  // Not by what is known of the source: what was carried may have come from its end already.
  at_end_ = chunk.size_bytes < target_bytes;
}

void LineChunker::pass_byte_order_mark() {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (offset_bytes_ > 0) return;
  carried_.resize(kMark.size());
  size_t num_read = 0;
  while (num_read < kMark.size() && !source_has_ended_) {
    const size_t got = source_.read(carried_.data() + num_read, kMark.size() - num_read);
    num_read += got;
    source_has_ended_ = got == 0;
  }
  carried_.resize(num_read);
  if (std::string_view(carried_.data(), num_read) != kMark) return;
  carried_.clear();
  offset_bytes_ = static_cast<int64_t>(kMark.size());
}

bool LineChunker::next(LineChunk& chunk) {
  chunk.size_bytes = 0;
  chunk.offset_bytes = offset_bytes_;
  chunk.is_too_long_line = false;
  size_t target_bytes = chunk_bytes_;
  for (;;) {
    read_some(chunk, target_bytes);
    if (chunk.size_bytes == 0) return false;
    const size_t cut = at_end_ ? chunk.size_bytes : last_cut(split_at_, chunk.text());
    if (cut > 0) {
      finish_chunk(chunk, cut);
      chunk.size_bytes = cut;
      offset_bytes_ += static_cast<int64_t>(cut);
      return true;
    }
    // One line fills the chunk.
    if (chunk.size_bytes > max_held_bytes_) {
      skip_rest_of_line(chunk);
      return true;
    }
    target_bytes = std::min(2 * chunk.size_bytes, max_held_bytes_ + 1);
  }
}

// The bytes behind `cut` belong to the next chunk.
void LineChunker::finish_chunk(LineChunk& chunk, size_t cut) {
  carried_.erase(carried_.begin(), carried_.begin() + static_cast<std::ptrdiff_t>(num_taken_));
  carried_.insert(carried_.begin(), chunk.buffer.data() + cut,
                  chunk.buffer.data() + chunk.size_bytes);
  num_taken_ = 0;
}

// Drops a line that is over the limit without holding more of it; what follows its end is carried
// over.
void LineChunker::skip_rest_of_line(LineChunk& chunk) {
  int64_t num_skipped = 0;
  size_t cut = 0;
  while (cut == 0 && !at_end_) {
    // Line ends at the end stay, with the byte before them: what comes next decides what they are.
    const size_t last =
        split_at_ == SplitAt::kNowhere ? chunk.size_bytes : chunk.text().find_last_not_of("\r\n");
    const std::string kept(chunk.text().substr(last));
    num_skipped += static_cast<int64_t>(chunk.size_bytes - kept.size());
    std::copy(kept.begin(), kept.end(), chunk.buffer.begin());
    chunk.size_bytes = kept.size();
    read_some(chunk, std::max(chunk_bytes_, kept.size() + 1));
    // Not the last cut: only this line is dropped.
    cut = first_cut(split_at_, chunk.text(), at_end_);
  }
  if (cut == 0) cut = chunk.size_bytes;  // the stream ended within the line
  finish_chunk(chunk, cut);
  chunk.too_long_line_bytes = num_skipped + static_cast<int64_t>(cut);
  chunk.size_bytes = 0;
  chunk.is_too_long_line = true;
  offset_bytes_ += chunk.too_long_line_bytes;
}

LineWalker::LineWalker(std::string_view text)
    : position_(text.data()),
      end_(text.data() + text.size()),
      next_carriage_return_(find(position_, end_, '\r')) {}

bool LineWalker::next(std::string_view& line) {
  if (position_ == end_) return false;
  if (next_carriage_return_ < position_) next_carriage_return_ = find(position_, end_, '\r');
  const char* const line_end = find(position_, next_carriage_return_, '\n');
  line = {position_, static_cast<size_t>(line_end - position_)};
  position_ = line_end;
  if (position_ != end_) {
    const bool both = *position_ == '\r' && position_ + 1 != end_ && position_[1] == '\n';
    position_ += both ? 2 : 1;
  }
  return true;
}

}  // namespace weft
