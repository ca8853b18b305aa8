// Lets one line at a time grow far beyond a chunk, in a scratch file, so that the memory of a run
// does not depend on how long lines are, nor its scratch space on how many of its workers meet a
// huge one at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "indexed_dataset/scratch_file.h"
#include "preprocess/byte_source.h"

namespace weft {

class LongLineGate {
 public:
  // A permit is held until its last copy is gone.
  using Permit = std::shared_ptr<void>;

  // Longer lines need a permit and a file. `kept_bytes`: how much of one is in memory when it is
  // walked over.
  LongLineGate(size_t free_bytes, std::function<ScratchFile()> make_scratch,
               size_t kept_bytes = size_t{1} << 20)
      : free_bytes_(free_bytes), kept_bytes_(kept_bytes), make_scratch_(std::move(make_scratch)) {}
  size_t free_bytes() const { return free_bytes_; }
  size_t kept_bytes() const { return kept_bytes_; }
  ScratchFile make_scratch() const { return make_scratch_(); }

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

  size_t free_bytes_, kept_bytes_;
  std::function<ScratchFile()> make_scratch_;
  std::mutex mutex_;
  std::condition_variable freed_;
  bool is_taken_ = false, closed_ = false;
};

}  // namespace weft
