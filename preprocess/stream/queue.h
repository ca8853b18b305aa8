// The queues between the threads of a rank, which can be closed. They have no bound: a fixed set of
// buffers or chunks travels through them, and what is made of these, so that push() never waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace weft {

// First in, first out, but urgent items go before all others.
template <typename T>
class Queue {
 public:
  void push(T item) { push_to(items_, std::move(item)); }
  void push_urgent(T item) { push_to(urgent_, std::move(item)); }

  // Waits for an item; nothing once the queue is closed.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return is_ready(); });
    return take();
  }

  // The same, but waits at most `timeout`.
  std::optional<T> pop_for(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [&] { return is_ready(); });
    return take();
  }

  // No pop() waits from now on; what is queued, or comes later, is dropped.
  void close() {
    std::deque<T> items, urgent;  // destroyed without the lock
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      items.swap(items_);
      urgent.swap(urgent_);
    }
    ready_.notify_all();
  }

 private:
  void push_to(std::deque<T>& items, T item) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return;
      items.push_back(std::move(item));
    }
    ready_.notify_one();
  }

  bool is_ready() const { return is_closed_ || !urgent_.empty() || !items_.empty(); }

  std::optional<T> take() {
    std::deque<T>& items = urgent_.empty() ? items_ : urgent_;
    if (items.empty()) return std::nullopt;
    T item = std::move(items.front());
    items.pop_front();
    return item;
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_, urgent_;
  bool is_closed_ = false;
};

// Messages of other threads for the thread that keeps the books of a rank: functions that it calls.
// If one throws, the rank ends with that error.
using Inbox = Queue<std::function<void()>>;

// Does `work`, and lets the inbox call `then`, or throw what the work has thrown.
inline void work_and_tell(Inbox& inbox, const std::function<void()>& work,
                          std::function<void()> then) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  inbox.push([error, then = std::move(then)] {
    if (error) std::rethrow_exception(error);
    then();
  });
}

}  // namespace weft
