#include "trainer/profile/step_profiler.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Steps right before the recorded ones are like them: the device is as warm.
constexpr size_t kNumCompared = 20;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StepProfiler::StepProfiler(ProfilingBackend& backend, const ProcessGroups& groups,
                           const StepRange& steps)
    : backend_(backend), groups_(groups), steps_(steps) {}

void StepProfiler::begin_step(int64_t iteration) {
  if (iteration < steps_.first || iteration > steps_.last) return;
  ++num_begun_;
  backend_.recorder().begin_step();
}

void StepProfiler::end_step() {
  if (backend_.recorder().is_recording()) backend_.recorder().end_step();
}

void StepProfiler::step_is_read(int64_t iteration, double device_ms) {
  if (iteration > steps_.last) return;
  if (iteration >= steps_.first) {
    profiled_ms_.push_back(device_ms);
    backend_.recorder().collect();
    return;
  }
  // The first step of a process loads code and warms up.
  if (std::exchange(is_first_read_, false)) return;
  unprofiled_ms_.push_back(device_ms);
  if (unprofiled_ms_.size() > kNumCompared) unprofiled_ms_.erase(unprofiled_ms_.begin());
}

RankProfile StepProfiler::finish(int rank, const std::optional<DeviceCeilings>& ceilings) {
  is_finished_ = true;
  for (const EventId event : backend_.recorder().uncollected_events())
    groups_.wait_for(backend_, event);
  backend_.recorder().collect();
  return {.rank = rank,
          .first_step = steps_.first,
          .last_step = steps_.first + num_begun_ - 1,
          .device = backend_.description(),
          .profile = profile_of(backend_.recorder().operations(), backend_.recorder().steps()),
          .profiled_ms = median(profiled_ms_),
          .unprofiled_ms = median(unprofiled_ms_),
          .ceilings = ceilings};
}

}  // namespace weft
