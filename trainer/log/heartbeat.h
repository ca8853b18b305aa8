// Says that a run lives where its log would be silent: a step that takes long, and a signal that
// has come.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace weft {

class Heartbeat {
 public:
  struct Options {
    std::FILE* out = stdout;
    bool saves = false;  // the run has a --save folder
    std::chrono::milliseconds silence{60'000};
    // Says where in the iteration the run is, from the thread: ", micro-batch 2 of 4".
    std::function<std::string()> where = [] { return std::string(); };
  };
  // Starts a thread that prints whole lines. Throws LimitExceeded if there can be no more threads.
  explicit Heartbeat(const Options& options);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // An iteration begins; it is the end of the one before. Iteration 0 stands for the work between
  // two iterations, which prints its own lines.
  void iteration_begins(int64_t iteration);

 private:
  void watch();
  void tell_signal();

  const Options options_;
  std::atomic<int64_t> iteration_{0}, begun_ms_{0}, usual_ms_{0};
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace weft
