// Threads that work together: an exception of one of them is kept, and does not end the process.
#pragma once

#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/start_thread.h"

namespace weft {

// start() and join() are for one thread.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ~ThreadGroup() { join(); }

  // A thread that calls f(). Throws LimitExceeded as start_thread().
  template <typename F>
  void start(F f) {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(start_thread([this, f = std::move(f)] {
      try {
        f();
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }));
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Throws the first exception by which a thread has ended, if one has.
  void check() const {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace weft
