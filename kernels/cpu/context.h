// What every CPU operation is given: the number of threads and each thread's part of the workspace.
#pragma once

#include <omp.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace weft::cpu {

class Context {
 public:
  explicit Context(int num_threads) : num_threads_(num_threads) {}

  int num_threads() const { return num_threads_; }
  void set_workspace(float* data, int64_t num_floats) {
    workspace_ = data;
    // Whole cache lines per thread.
    floats_per_thread_ = num_floats / num_threads_ / 16 * 16;
  }

  // Throws std::invalid_argument where a thread has less than this; called before threads start.
  void need_scratch(const char* operation, int64_t num_floats) const {
    if (num_floats <= floats_per_thread_) return;
    throw std::invalid_argument(
        std::string(operation) + ": needs " + std::to_string(num_floats * 4) +
        " bytes of workspace per thread, has " + std::to_string(floats_per_thread_ * 4) +
        "; plan it with workspace_bytes and hand it over with set_workspace");
  }
  float* scratch(int thread) const { return workspace_ + thread * floats_per_thread_; }

  // task(i, thread) for every i below num_tasks. Tasks share nothing that is written, so that the
  // bits of the result depend neither on the number of threads nor on which of them takes a task;
  // dynamic, because causal tasks differ in size.
  template <typename Task>
  void for_each(int64_t num_tasks, const Task& task) const {
#pragma omp parallel for schedule(dynamic, 1) num_threads(num_threads_)
    for (int64_t i = 0; i < num_tasks; ++i) task(i, omp_get_thread_num());
  }

  // task(begin, end, thread) over fixed pieces of `grain` rows: for cheap rows.
  template <typename Task>
  void for_each_range(int64_t num_rows, int64_t grain, const Task& task) const {
    for_each((num_rows + grain - 1) / grain, [&](int64_t i, int thread) {
      const int64_t begin = i * grain;
      task(begin, begin + grain < num_rows ? begin + grain : num_rows, thread);
    });
  }

 private:
  int num_threads_;
  float* workspace_ = nullptr;
  int64_t floats_per_thread_ = 0;
};

}  // namespace weft::cpu
