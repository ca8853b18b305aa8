// Keeps the windows and dictionaries of all inputs that a rank decompresses at a time within one
// amount of memory, whatever the files ask for: 30 files by xz -9 on 30 workers would take 2 GiB.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "preprocess/compressed/decompress.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

// Sizes in bytes: of all windows at a time, of the largest one, and of one that needs no claim.
struct WindowSizes {
  // The dictionary of xz -7, twice the largest window of zstd below --ultra.
  static constexpr int64_t kFree = int64_t{16} << 20;

  int64_t total = WindowLimits::kDefaultMaxBytes;
  int64_t max = WindowLimits::kDefaultMaxBytes;  // not above `total`
  int64_t free = kFree;
};

// A run may take 256 MiB and 64 MiB a worker; so much of it is left for windows.
inline WindowSizes window_sizes_for(int num_workers) {
  return {.total = WindowLimits::kDefaultMaxBytes + num_workers * (int64_t{16} << 20)};
}

// Claims are made in the order in which they are asked for, so that a large one is not passed over
// for ever. A thread that waits for one must hold nothing that others need to finish: no part of the
// budget, no permit for a long line or chunk.
class WindowBudget {
 public:
  // `on_first_wait` is called, by whichever thread, with the claim that was the first to wait.
  explicit WindowBudget(const WindowSizes& sizes,
                        std::function<void(int64_t claim_bytes)> on_first_wait = {})
      : sizes_(sizes), on_first_wait_(std::move(on_first_wait)) {}
  int64_t max_bytes() const { return sizes_.max; }
  int64_t total_bytes() const { return sizes_.total; }
  int64_t taken_bytes() const {
    const std::lock_guard lock(mutex_);
    return taken_bytes_;
  }
  // Number of claims that have asked for memory and not got it yet.
  int64_t num_waiting() const {
    const std::lock_guard lock(mutex_);
    return num_asked_ - num_served_;
  }

  // Ends all waiting, now and later.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
  }

  class Claim {
   public:
    // The budget must outlive it.
    explicit Claim(WindowBudget& budget) : budget_(budget) {}
    Claim(const Claim&) = delete;
    ~Claim() { budget_.release(size_bytes_); }

    // The limits of a decoder that works under this claim.
    WindowLimits limits() const {
      return {
          .size_bytes = std::max(size_bytes_, std::min(budget_.sizes_.free, budget_.sizes_.max)),
          .max_bytes = budget_.sizes_.max};
    }
    // Releases what it has and waits for `size_bytes`. Throws ReadCancelled once the budget is
    // closed.
    void renew(int64_t size_bytes) {
      budget_.release(std::exchange(size_bytes_, 0));
      budget_.take(size_bytes);
      size_bytes_ = size_bytes;
    }

   private:
    WindowBudget& budget_;
    int64_t size_bytes_ = 0;
  };

 private:
  void take(int64_t size_bytes) {
    std::unique_lock lock(mutex_);
    const int64_t turn = num_asked_++;
    const auto fits = [&] {
      return turn == num_served_ && taken_bytes_ + size_bytes <= sizes_.total;
    };
    if (!is_closed_ && !fits() && !std::exchange(has_waited_, true) && on_first_wait_) {
      lock.unlock();
      on_first_wait_(size_bytes);
      lock.lock();
    }
    changed_.wait(lock, [&] { return is_closed_ || fits(); });
    if (is_closed_) throw ReadCancelled{};
    ++num_served_;
    taken_bytes_ += size_bytes;
    changed_.notify_all();  // the next one may fit, too
  }

  void release(int64_t size_bytes) {
    {
      const std::lock_guard lock(mutex_);
      taken_bytes_ -= size_bytes;
    }
    changed_.notify_all();
  }

  const WindowSizes sizes_;
  std::function<void(int64_t)> on_first_wait_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t taken_bytes_ = 0, num_asked_ = 0, num_served_ = 0;
  bool has_waited_ = false, is_closed_ = false;
};

}  // namespace weft
