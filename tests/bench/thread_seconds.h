// Processor time of this thread: other programs on the machine take the core away, but not from the
// measure.
#pragma once

#include <ctime>

namespace weft::bench {

inline double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Returns the seconds that `function()` takes.
template <typename Function>
double seconds(Function function) {
  const double start = thread_seconds();
  function();
  return thread_seconds() - start;
}

}  // namespace weft::bench
