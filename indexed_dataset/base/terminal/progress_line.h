// Says how far some work is, in the words of all programs: percent, time left, rate, then whatever
// else is known of it. The line is refreshed on a terminal; in a log there is one each 10 s at
// most.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "indexed_dataset/base/process/on_progress.h"
#include "indexed_dataset/base/terminal/messages.h"

namespace weft {

// Writes "12.4 MB" or "3.10 G": three digits and a decimal prefix, for `unit` "B", "" and so on.
std::string with_prefix(double value, const std::string& unit);

// "97 s left", "12 min left", "3 h 10 min left", "2 d 21 h left".
std::string time_left(double seconds);

// "12.4 % | 3 h 10 min left" for `done` of `total` at `per_second`; without speed no time is left.
std::string percent_and_time_left(double done, double total, double per_second);
// "12.4 % | 3 h 10 min left | 17.4 MB/s": the same with the speed, in `unit` ("B", "samples").
// Without a total (below 0) it is the speed alone.
std::string progress_fields(double done, double total, double per_second, const std::string& unit);

// Shows the progress of a library's call: give report() to it. Phases of the work, each with a name
// and a total of its own, may follow each other.
class ProgressLine {
 public:
  // `unit` is what the work is counted in: "B", "datasets".
  explicit ProgressLine(std::string unit = "B") : unit_(std::move(unit)) {}
  ~ProgressLine() { line_.clear(); }
  ProgressLine(const ProgressLine&) = delete;

  // A callback that may be called by any thread, as long as this object lives.
  OnProgress report() {
    return [this](const std::string& phase, int64_t num_new, int64_t num_all) {
      add(phase, num_new, num_all);
    };
  }

 private:
  void add(const std::string& phase, int64_t num_new, int64_t num_all);

  const std::string unit_;
  std::mutex mutex_;  // guards what follows
  LiveLine line_;
  std::string phase_;
  int64_t num_done_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace weft
