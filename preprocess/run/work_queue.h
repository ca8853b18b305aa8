// Jobs for the workers of a rank. Writing goes before tokenizing: what is written frees memory, and
// others may wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "preprocess/documents/tokenize_chunk.h"

namespace weft {

class WorkQueue {
 public:
  // Gets the worker's own tokenizer. Must not throw.
  using Job = std::function<void(ChunkTokenizer&)>;

  void push_text(Job job) { push(text_, std::move(job)); }
  void push_write(Job job) { push(writes_, std::move(job)); }

  // Waits; nothing once closed.
  std::optional<Job> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return is_closed_ || !writes_.empty() || !text_.empty(); });
    if (is_closed_) return std::nullopt;
    std::deque<Job>& jobs = writes_.empty() ? text_ : writes_;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    return job;
  }

  // What is still queued is dropped.
  void close() {
    std::deque<Job> text, writes;  // destroyed without the lock
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      text.swap(text_);
      writes.swap(writes_);
    }
    ready_.notify_all();
  }

 private:
  void push(std::deque<Job>& jobs, Job job) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return;
      jobs.push_back(std::move(job));
    }
    ready_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> text_, writes_;
  bool is_closed_ = false;
};

}  // namespace weft
