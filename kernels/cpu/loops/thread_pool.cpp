#include "kernels/cpu/loops/thread_pool.h"

#include <algorithm>

namespace weft::cpu {

ThreadPool::ThreadPool(int num_threads) {
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { serve(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  opened_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::open(Job job, int64_t num_helpers) {
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    ++num_opened_;
  }
  const auto num_workers = static_cast<int64_t>(workers_.size());
  if (num_helpers >= num_workers) return opened_.notify_all();
  for (int64_t i = 0; i < num_helpers; ++i) opened_.notify_one();
}

void ThreadPool::close() {
  std::unique_lock lock(mutex_);
  job_ = {};
  left_.wait(lock, [this] { return num_inside_ == 0; });
}

void ThreadPool::serve(int thread) {
  uint64_t last = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    opened_.wait(lock, [&] { return stopping_ || (job_.call != nullptr && num_opened_ != last); });
    if (stopping_) return;
    last = num_opened_;
    const Job job = job_;
    ++num_inside_;
    lock.unlock();
    job.call(job.work, thread);
    lock.lock();
    if (--num_inside_ == 0) left_.notify_one();
  }
}

}  // namespace weft::cpu
