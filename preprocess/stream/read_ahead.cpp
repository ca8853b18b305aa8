#include "preprocess/stream/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "indexed_dataset/base/process/start_thread.h"

namespace weft {

ReadAheadSource::ReadAheadSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {
  for (Buffer& buffer : buffers_) {
    buffer.bytes.resize(kBufferBytes);
    empty_.push(&buffer);
  }
  thread_ = start_thread([this] { fill_buffers(); });
}

ReadAheadSource::~ReadAheadSource() {
  stop_ = true;
  empty_.close();
  inner_->interrupt();
  thread_.join();
}

size_t ReadAheadSource::read(char* data, size_t size_bytes) {
  for (;;) {
    if (current_ == nullptr) current_ = *full_.pop();
    num_bytes_taken_ = current_->num_bytes_taken;
    const size_t got = std::min(size_bytes, current_->size_bytes - position_);
    if (got > 0) {
      std::memcpy(data, current_->bytes.data() + position_, got);
      position_ += got;
      return got;
    }
    if (current_->error) std::rethrow_exception(current_->error);
    if (current_->last) return 0;
    empty_.push(std::exchange(current_, nullptr));
    position_ = 0;
  }
}

void ReadAheadSource::fill_buffers() {
  bool last = false;
  while (!last) {
    const std::optional<Buffer*> buffer = empty_.pop();
    if (!buffer) return;
    fill(**buffer);
    last = (*buffer)->last;
    full_.push(*buffer);
  }
}

// Whole buffers: every handing-over costs two wake-ups.
void ReadAheadSource::fill(Buffer& buffer) const {
  buffer.size_bytes = 0;
  try {
    while (buffer.size_bytes < kBufferBytes && !stop_) {
      const size_t got =
          inner_->read(buffer.bytes.data() + buffer.size_bytes, kBufferBytes - buffer.size_bytes);
      if (got == 0) {
        buffer.last = true;
        break;
      }
      buffer.size_bytes += got;
    }
  } catch (...) {
    buffer.error = std::current_exception();
    buffer.last = true;
  }
  buffer.num_bytes_taken = inner_->num_bytes_taken();
}

}  // namespace weft
