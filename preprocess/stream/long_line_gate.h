// Lets one line at a time grow far beyond a chunk, and some at a time grow beyond it a little, so
// that the memory of a run does not depend on how many of its workers meet long lines at once.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "preprocess/stream/byte_source.h"

namespace weft {

class LongLineGate {
 public:
  // A permit is held until its last copy is gone.
  using Permit = std::shared_ptr<void>;

  // A chunk that must hold more than `free_bytes` needs the permit of the one long line. Of chunks
  // that have grown, up to this length, `max_large_chunks` may be there.
  explicit LongLineGate(size_t free_bytes, int max_large_chunks = 4)
      : free_bytes_(free_bytes), num_large_left_(max_large_chunks) {}
  size_t free_bytes() const { return free_bytes_; }
  // Number of threads that wait for a permit.
  int num_waiting() const {
    const std::lock_guard lock(mutex_);
    return num_waiting_;
  }

  // Both wait for their permit, and throw ReadCancelled once closed. A chunk asks for each permit
  // once, first for that of a large chunk. The holder of the long line's permit waits neither for
  // the other one nor for any window (window_budget.h). The gate must outlive its permits.
  Permit enter() { return take(num_long_left_); }
  Permit enter_large_chunk() { return take(num_large_left_); }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    freed_.notify_all();
  }

 private:
  Permit take(int& num_left) {
    std::unique_lock lock(mutex_);
    ++num_waiting_;
    freed_.wait(lock, [&] { return closed_ || num_left > 0; });
    --num_waiting_;
    if (closed_) throw ReadCancelled{};
    --num_left;
    return {&num_left, [this](int* taken) { release(*taken); }};
  }

  void release(int& num_left) {
    {
      const std::lock_guard lock(mutex_);
      ++num_left;
    }
    freed_.notify_all();
  }

  size_t free_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  int num_long_left_ = 1, num_large_left_, num_waiting_ = 0;
  bool closed_ = false;
};

}  // namespace weft
