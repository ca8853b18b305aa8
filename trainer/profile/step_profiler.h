// --profile-steps A:B records the steps A to B of a run and tells where their time goes.
//
//   for each step:  profiler.begin_step(i); ... enqueue it ...; profiler.end_step();
//                   when its result is read: profiler.step_is_read(i, its time on the device)
//   when the last one is read: profiler.finish()
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/profile/profile_report.h"
#include "trainer/profile/profiling_backend.h"

namespace weft {

class StepProfiler {
 public:
  // All outlive the profiler.
  StepProfiler(ProfilingBackend& backend, const ProcessGroups& groups, const StepRange& steps);

  // Iterations outside of the range are not recorded.
  void begin_step(int64_t iteration);
  void end_step();
  // The host has read the result of this step, and so of all before it.
  void step_is_read(int64_t iteration, double device_ms);

  bool is_last(int64_t iteration) const { return iteration == steps_.last; }
  // Tells that steps were recorded and finish() was not called.
  bool has_unreported_steps() const { return num_begun_ > 0 && !is_finished_; }
  // Waits for what is recorded and returns this rank's profile.
  RankProfile finish(int rank, const std::optional<DeviceCeilings>& ceilings);

 private:
  ProfilingBackend& backend_;
  const ProcessGroups& groups_;
  const StepRange steps_;
  int64_t num_begun_ = 0;
  bool is_finished_ = false, is_first_read_ = true;
  std::vector<double> profiled_ms_, unprofiled_ms_;  // of steps, on the device
};

}  // namespace weft
