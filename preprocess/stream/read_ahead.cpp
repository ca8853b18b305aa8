#include "preprocess/stream/read_ahead.h"

#include <algorithm>
#include <cstring>

#include "indexed_dataset/process/start_thread.h"

namespace weft {

ReadAheadSource::ReadAheadSource(std::unique_ptr<ByteSource> inner)
    : inner_(std::move(inner)), format_(inner_->format()) {
  for (Buffer& buffer : buffers_) buffer.bytes.resize(kBufferBytes);
  thread_ = start_thread([this] { fill_buffers(); });
}

ReadAheadSource::~ReadAheadSource() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  inner_->interrupt();
  thread_.join();
}

size_t ReadAheadSource::read(char* data, size_t size_bytes) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return num_filled_ > num_emptied_; });
    }
    const Buffer& buffer = buffers_[num_emptied_ % kNumBuffers];
    num_bytes_taken_ = buffer.num_bytes_taken;
    const size_t got = std::min(size_bytes, buffer.size_bytes - position_);
    if (got > 0) {
      std::memcpy(data, buffer.bytes.data() + position_, got);
      position_ += got;
      return got;
    }
    if (buffer.error) std::rethrow_exception(buffer.error);
    if (buffer.last) return 0;
    {
      std::lock_guard lock(mutex_);
      ++num_emptied_;
    }
    changed_.notify_all();
    position_ = 0;
  }
}

void ReadAheadSource::fill_buffers() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || num_filled_ < num_emptied_ + kNumBuffers; });
      if (stop_) return;
    }
    Buffer& buffer = buffers_[num_filled_ % kNumBuffers];
    fill(buffer);
    const bool last = buffer.last;
    {
      std::lock_guard lock(mutex_);
      ++num_filled_;
    }
    changed_.notify_all();
    if (last) return;
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
