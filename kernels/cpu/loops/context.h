// Every CPU operation gets a context: the threads, and each thread's part of the workspace.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/cpu/loops/thread_pool.h"

namespace weft::cpu {

class Context {
 public:
  explicit Context(int num_threads) : threads_(std::make_unique<ThreadPool>(num_threads)) {}

  int num_threads() const { return threads_->num_threads(); }
  void set_workspace(float* data, int64_t num_floats) {
    workspace_ = data;
    // Whole cache lines per thread.
    floats_per_thread_ = num_floats / num_threads() / 16 * 16;
  }

  // Throws std::invalid_argument where a thread's part is smaller. Call it before threads start.
  void need_scratch(const char* operation, int64_t num_floats) const {
    if (num_floats <= floats_per_thread_) return;
    throw std::invalid_argument(
        std::string(operation) + ": needs " + std::to_string(num_floats * 4) +
        " bytes of workspace per thread, has " + std::to_string(floats_per_thread_ * 4) +
        "; plan it with workspace_bytes and hand it over with set_workspace");
  }
  float* scratch(int thread) const { return workspace_ + thread * floats_per_thread_; }

  // Calls task(i, thread) for every i below num_tasks; a free thread takes the next. No task writes
  // what another one reads or writes, so the bits of the result depend neither on the number of
  // threads nor on which of them takes a task. Tasks do not throw.
  template <typename Task>
  void for_each(int64_t num_tasks, const Task& task) const {
    std::atomic<int64_t> next = 0;
    threads_->run(num_tasks, [&](int thread) {
      for (int64_t i = next++; i < num_tasks; i = next++) task(i, thread);
    });
  }

  // Calls task(begin, end, thread) over pieces of `grain` rows, where a task per row would cost
  // more than the row.
  template <typename Task>
  void for_each_range(int64_t num_rows, int64_t grain, const Task& task) const {
    for_each((num_rows + grain - 1) / grain, [&](int64_t i, int thread) {
      const int64_t begin = i * grain;
      task(begin, begin + grain < num_rows ? begin + grain : num_rows, thread);
    });
  }

 private:
  std::unique_ptr<ThreadPool> threads_;
  float* workspace_ = nullptr;
  int64_t floats_per_thread_ = 0;
};

}  // namespace weft::cpu
