// Lets one line at a time grow far beyond a chunk, in a scratch file, and some at a time grow
// beyond it in memory, so that the memory of a run does not depend on how long lines are, nor its
// scratch space on how many of its workers meet a huge one at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "indexed_dataset/storage/scratch_file.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

class LongLineGate {
 public:
  // A permit is held until its last copy is gone.
  using Permit = std::shared_ptr<void>;

  // Longer lines than `free_bytes` need a permit and a file. `kept_bytes`: how much of one is in
  // memory when it is walked over. Of chunks that have grown, up to these lines' length,
  // `max_large_chunks` may be there.
  LongLineGate(size_t free_bytes, std::function<ScratchFile()> make_scratch,
               int max_large_chunks = 4, size_t kept_bytes = size_t{1} << 20)
      : free_bytes_(free_bytes),
        kept_bytes_(kept_bytes),
        make_scratch_(std::move(make_scratch)),
        num_large_left_(max_large_chunks) {}
  size_t free_bytes() const { return free_bytes_; }
  size_t kept_bytes() const { return kept_bytes_; }
  ScratchFile make_scratch() const { return make_scratch_(); }

  // Both wait for their permit, throw ReadCancelled once closed, and must not be called by who has
  // such a permit. Who has one comes to its end without the other, and without any window
  // (window_budget.h). The gate must outlive its permits.
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
    freed_.wait(lock, [&] { return closed_ || num_left > 0; });
    if (closed_) throw ReadCancelled{};
    --num_left;
    return {&num_left, [this](int* taken) { give_back(*taken); }};
  }

  void give_back(int& num_left) {
    {
      const std::lock_guard lock(mutex_);
      ++num_left;
    }
    freed_.notify_all();
  }

  size_t free_bytes_, kept_bytes_;
  std::function<ScratchFile()> make_scratch_;
  std::mutex mutex_;
  std::condition_variable freed_;
  int num_long_left_ = 1, num_large_left_;
  bool closed_ = false;
};

}  // namespace weft
