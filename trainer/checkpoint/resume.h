// Turns a run's numbers into those of a checkpoint, and a checkpoint's into the start of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/config/config.h"
#include "trainer/config/lr_schedule.h"
#include "trainer/config/model_shape.h"

namespace weft {

// The counters and the schedule of a run, which checkpoints keep beside the tensors.
struct RunState {
  ScalarState scalars;  // iteration and consumed samples, among others
  int64_t consumed_valid_samples = 0;
  LrSchedule lr;
};

CheckpointInfo checkpoint_info(const RunState& state, const ModelShape& shape,
                               const Config& config);

// Returns the iteration to load: --ckpt-step, else the one that the tracker in --load names. Where
// there is none, it returns nothing, or throws std::runtime_error with
// --exit-on-missing-checkpoint.
std::optional<int64_t> iteration_to_load(const Config& config);

struct Resume {
  RunState state;
  bool load_optimizer = true;
  // Differences that are allowed, but make the run read other samples than the one that was saved.
  std::vector<std::string> warnings = {};
};
// Checks that a checkpoint fits this run and says where the run goes on. With --finetune, and from
// imported weights, it starts at iteration 0. From weights saved with --no-save-optim, or with
// --no-load-optim, it goes on with a fresh optimizer. Throws std::invalid_argument, which names
// every difference of the architecture, and where the learning-rate schedules differ (reconcile()).
Resume plan_resume(const CheckpointInfo& checkpoint, const ModelShape& shape, const Config& config);

}  // namespace weft
