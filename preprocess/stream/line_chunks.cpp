#include "preprocess/stream/line_chunks.h"

#include <algorithm>
#include <cstring>

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

bool LineChunker::next(LineChunk& chunk) {
  chunk.size_bytes = 0;
  chunk.offset_bytes = offset_bytes_;
  chunk.is_too_long_line = false;
  size_t target_bytes = chunk_bytes_;
  for (size_t num_searched = 0;;) {
    read_some(chunk, target_bytes);
    if (chunk.size_bytes == 0) return false;
    const std::string_view rest = chunk.text().substr(num_searched);
    const size_t found = at_end_ ? rest.size() : last_cut(rest);
    const size_t cut = found > 0 ? num_searched + found : 0;
    if (cut > 0) {
      finish_chunk(chunk, cut);
      chunk.size_bytes = cut;
      offset_bytes_ += static_cast<int64_t>(cut);
      return true;
    }
    // One line fills the chunk. +2: its line end does not count as a part of it.
    if (chunk.size_bytes > max_line_bytes_ + 2) {
      skip_rest_of_line(chunk);
      return true;
    }
    num_searched = chunk.size_bytes - 1;  // a final "\r" was left open
    target_bytes = std::min(2 * chunk.size_bytes, max_line_bytes_ + 3);
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
    // A final "\r" stays, in case that its "\n" comes next.
    const size_t num_kept = chunk.buffer[chunk.size_bytes - 1] == '\r' ? 1 : 0;
    num_skipped += static_cast<int64_t>(chunk.size_bytes - num_kept);
    chunk.buffer[0] = '\r';
    chunk.size_bytes = num_kept;
    read_some(chunk, std::max<size_t>(chunk_bytes_, 2));
    cut = end_of_first_line(chunk.text(), at_end_);  // not the last one: only this line is dropped
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
