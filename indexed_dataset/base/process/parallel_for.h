// A loop whose rounds are spread over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace weft {

// Calls use(i) once for every i in [0, count), on `num_threads` threads (this one is one of them),
// roughly in ascending order. After an exception no new round begins; the first one is thrown when
// all threads have ended.
template <typename Use>
void parallel_for(int64_t count, int num_threads, const Use& use) {
  std::atomic<int64_t> next{0};
  std::exception_ptr first_error;
  std::mutex error_mutex;
  const auto work = [&] {
    try {
      for (int64_t i = next++; i < count; i = next++) use(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(error_mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const int64_t num_others = std::min<int64_t>(std::max(num_threads, 1), count) - 1;
  try {
    for (int64_t i = 0; i < num_others; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads are to be had (a limit of processes): those that run will do.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace weft
