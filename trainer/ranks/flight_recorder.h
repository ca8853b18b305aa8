// Remembers the last operations that need other ranks, so that a run that hangs can say where each
// rank stands. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace weft {

class FlightRecorder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kNumKept = 256;

  struct Operation {
    int64_t number = 0;     // counted from 1 on this rank
    int64_t iteration = 0;  // the step that runs; 0 before the first
    std::string name = {};  // "all-reduce of 12 MiB over data-parallel ranks"
    Clock::time_point begun = {}, ended = {};
    Clock::time_point waits_since = {};  // its begin, or the end of the last operation inside of it
    bool has_ended = false;
    Clock::time_point worked = {};  // the last note_work() since it began, if any
  };

  // The iteration that operations from now on belong to.
  void set_iteration(int64_t iteration);
  // Operations may lie in each other: end() ends the one that has begun last.
  void begin(std::string name);
  void end();
  // Tells that this rank goes on with work that needs no other rank and may take long, such as
  // writing a checkpoint. Others that wait for it meanwhile do not hang.
  void note_work();
  // Subtracts a time in which this process did not run from the operation that is under way.
  void forgive(Clock::duration pause);

  // The innermost operation that is under way, or else the latest one; its number is 0 before the
  // first.
  Operation latest() const;
  // Returns the operations that are kept, oldest first, a line each.
  std::string to_text() const;

  // An operation lasts as long as its Scope. Without a recorder nothing is recorded.
  class Scope {
   public:
    Scope(FlightRecorder& recorder, std::string name) : Scope(&recorder, std::move(name)) {}
    Scope(FlightRecorder* recorder, std::string name) : recorder_(recorder) {
      if (recorder_ != nullptr) recorder_->begin(std::move(name));
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      if (recorder_ != nullptr) recorder_->end();
    }

   private:
    FlightRecorder* recorder_;
  };

 private:
  const Operation& kept(int64_t number) const {
    return ring_[static_cast<size_t>(number) % kNumKept];
  }
  Operation& kept(int64_t number) { return ring_[static_cast<size_t>(number) % kNumKept]; }
  Operation& innermost();

  mutable std::mutex mutex_;
  std::array<Operation, kNumKept> ring_;
  int64_t last_ = 0, iteration_ = 0;
  std::vector<Operation> under_way_;  // the innermost one last
};

}  // namespace weft
