// A few threads that sleep while there is no work.
//
// OpenMP's threads spin between parallel loops, and every loop waits for all of them. Where
// processes outnumber cores (several ranks on one machine, tests side by side) a loop of 0.3 ms
// then takes 15 ms (kernels/DECISIONS.md).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::cpu {

class ThreadPool {
 public:
  // The calling thread counts as one of num_threads >= 1.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(thread) in up to `num_wanted` threads: always in the calling one (thread 0), and in
  // those others that awake before it has finished there. So `work` hands out its tasks itself. Run
  // returns when no thread is inside `work`, which must not throw and must not call run().
  template <typename Work>
  void run(int64_t num_wanted, const Work& work) {
    if (num_wanted <= 1 || workers_.empty()) return work(0);
    open({[](const void* w, int thread) { (*static_cast<const Work*>(w))(thread); }, &work},
         num_wanted - 1);
    work(0);
    close();
  }

 private:
  struct Job {
    void (*call)(const void* work, int thread) = nullptr;
    const void* work = nullptr;
  };
  void open(Job job, int64_t num_helpers);
  void close();  // lets no further thread in and waits for those inside
  void serve(int thread);

  std::mutex mutex_;
  std::condition_variable opened_, left_;
  Job job_;                  // call is null: closed
  uint64_t num_opened_ = 0;  // the number of the job: a worker enters each once
  int num_inside_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace weft::cpu
