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
  ++last_;
  ring_[static_cast<size_t>(last_) % kNumKept] = {
      .number = last_, .iteration = iteration_, .name = std::move(name), .begun = Clock::now()};
}

void FlightRecorder::end() {
  const std::lock_guard lock(mutex_);
  Operation& operation = ring_[static_cast<size_t>(last_) % kNumKept];
  operation.ended = Clock::now();
  operation.has_ended = true;
}

void FlightRecorder::note_work() {
  const std::lock_guard lock(mutex_);
  ring_[static_cast<size_t>(last_) % kNumKept].worked = Clock::now();
}

void FlightRecorder::forgive(Clock::duration pause) {
  const std::lock_guard lock(mutex_);
  Operation& operation = ring_[static_cast<size_t>(last_) % kNumKept];
  if (!operation.has_ended) operation.begun += pause;
  if (operation.worked != Clock::time_point{}) operation.worked += pause;
}

const FlightRecorder::Operation& FlightRecorder::at(int64_t number) const {
  return ring_[static_cast<size_t>(number) % kNumKept];
}

FlightRecorder::Operation FlightRecorder::latest() const {
  const std::lock_guard lock(mutex_);
  return at(last_);
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
    const Operation& operation = at(number);
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
