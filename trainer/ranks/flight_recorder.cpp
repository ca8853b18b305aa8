#include "trainer/ranks/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

void FlightRecorder::set_iteration(int64_t iteration) {
  const std::lock_guard lock(mutex_);
  iteration_ = iteration;
}

void FlightRecorder::begin(std::string name) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  under_way_.push_back({.number = ++last_,
                        .iteration = iteration_,
                        .name = std::move(name),
                        .begun = now,
                        .waits_since = now});
  kept(last_) = under_way_.back();
}

void FlightRecorder::end() {
  const std::lock_guard lock(mutex_);
  Operation& operation = under_way_.back();
  operation.ended = Clock::now();
  operation.has_ended = true;
  // Those inside of it may have taken its place.
  if (kept(operation.number).number == operation.number) kept(operation.number) = operation;
  const auto now = operation.ended;
  under_way_.pop_back();
  if (!under_way_.empty()) under_way_.back().waits_since = now;
}

void FlightRecorder::note_work() {
  const std::lock_guard lock(mutex_);
  innermost().worked = Clock::now();
}

void FlightRecorder::forgive(Clock::duration pause) {
  const std::lock_guard lock(mutex_);
  Operation& operation = innermost();
  if (!operation.has_ended) operation.waits_since += pause;
  if (operation.worked != Clock::time_point{}) operation.worked += pause;
}

FlightRecorder::Operation FlightRecorder::latest() const {
  const std::lock_guard lock(mutex_);
  return under_way_.empty() ? kept(last_) : under_way_.back();
}

FlightRecorder::Operation& FlightRecorder::innermost() {
  return under_way_.empty() ? kept(last_) : under_way_.back();
}

std::string FlightRecorder::to_text() const {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  std::string text = "operation iteration begun_s_ago lasted_s name\n";
  const int64_t first = std::max<int64_t>(1, last_ - static_cast<int64_t>(kNumKept) + 1);
  for (int64_t number = first; number <= last_; ++number) {
    const Operation& operation = kept(number);
    text += fmt::format("{:9d} {:9d} {:11.3f} {:>8} {}\n", number, operation.iteration,
                        seconds(now - operation.begun),
                        operation.has_ended
                            ? fmt::format("{:.3f}", seconds(operation.ended - operation.begun))
                            : "waits",
                        operation.name);
  }
  return text;
}

}  // namespace weft
