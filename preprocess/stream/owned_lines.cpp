#include "preprocess/stream/owned_lines.h"

#include <algorithm>
#include <utility>

#include "preprocess/stream/line_chunks.h"

namespace weft {
namespace {

// Small: behind the range's end only the rest of one line is wanted.
constexpr size_t kBlockBytes = 64 << 10;

}  // namespace

OwnedLines::OwnedLines(std::unique_ptr<ByteSource> range, OpenRest open_rest, bool owns_first_line)
    : range_(std::move(range)), open_rest_(std::move(open_rest)) {
  if (!owns_first_line) skip_to_first_line();
}

// Drops everything up to the first line end, which may reach from the range into the rest.
void OwnedLines::skip_to_first_line() {
  size_t end = 0;
  while (end == 0 && !(is_in_rest_ && pending_.empty())) {
    read_block();
    end = end_of_first_line(pending_, has_ended_);
    const size_t num_open = pending_.ends_with('\r') ? 1 : 0;  // its "\n" may come next
    const size_t num_dropped = end > 0 ? end : pending_.size() - num_open;
    pending_.erase(0, num_dropped);
    first_offset_bytes_ += static_cast<int64_t>(num_dropped);
  }
  if (end == 0 || first_offset_bytes_ > num_range_bytes_) {
    // The next line is another range's.
    first_offset_bytes_ = num_range_bytes_;
    pending_.clear();
    is_cut_ = true;
  }
}

// Appends bytes of the range, or of what lies behind it, to pending_; or finds that one has ended.
void OwnedLines::read_block() {
  const size_t num_old = pending_.size();
  pending_.resize(num_old + kBlockBytes);
  size_t got = 0;
  if (!is_in_rest_) {
    got = read_range(pending_.data() + num_old, kBlockBytes);
  } else if (open_rest_) {
    if (rest_ == nullptr) rest_ = open_rest_();
    got = rest_->read(pending_.data() + num_old, kBlockBytes);
    has_ended_ = got == 0;
  } else {
    has_ended_ = true;
  }
  pending_.resize(num_old + got);
}

size_t OwnedLines::read_range(char* data, size_t size_bytes) {
  const size_t got = range_->read(data, size_bytes);
  num_range_bytes_ += static_cast<int64_t>(got);
  if (got == 0) {
    is_in_rest_ = true;
    num_bytes_taken_ = range_->num_bytes_taken();
    range_.reset();  // its decoder makes room for that of the rest
  }
  return got;
}

size_t OwnedLines::read(char* data, size_t size_bytes) {
  if (size_bytes == 0) return 0;
  if (pending_.empty() && !is_in_rest_) {
    const size_t got = read_range(data, size_bytes);
    if (got > 0) return got;
  }
  // The rest is owned up to its first line end.
  while (is_in_rest_ && !is_cut_) {
    const size_t end = end_of_first_line(pending_, has_ended_);
    if (end > 0 || has_ended_) {
      pending_.resize(end);
      is_cut_ = true;
    } else if (pending_.empty() || pending_.back() == '\r') {
      read_block();
    } else {
      break;
    }
  }
  const size_t count = std::min(pending_.size(), size_bytes);
  std::copy_n(pending_.begin(), count, data);
  pending_.erase(0, count);
  return count;
}

}  // namespace weft
