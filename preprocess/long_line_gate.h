// Lets one line at a time grow far beyond a chunk, so that the memory of a run does not depend on
// how many of its workers meet a huge line at once.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "preprocess/byte_source.h"

namespace weft {

class LongLineGate {
 public:
  // A permit is held until its last copy is gone.
  using Permit = std::shared_ptr<void>;

  // Chunks below this need no permit.
  explicit LongLineGate(size_t free_bytes) : free_bytes_(free_bytes) {}
  size_t free_bytes() const { return free_bytes_; }

  // Waits for the permit. Throws ReadCancelled once closed. The gate must outlive its permits.
  Permit enter() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return closed_ || !is_taken_; });
    if (closed_) throw ReadCancelled{};
    is_taken_ = true;
    return {this, [](LongLineGate* gate) { gate->leave(); }};
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    freed_.notify_all();
  }

 private:
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      is_taken_ = false;
    }
    freed_.notify_one();
  }

  size_t free_bytes_;
  std::mutex mutex_;
  std::condition_variable freed_;
  bool is_taken_ = false, closed_ = false;
};

}  // namespace weft
