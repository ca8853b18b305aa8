// From a run to its checkpoint and back.
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

// The numbers of a run that checkpoints keep beside the tensors.
struct RunState {
  ScalarState scalars;  // iteration and consumed samples, among others
  int64_t consumed_valid_samples = 0;
  LrSchedule lr;
};

CheckpointInfo checkpoint_info(const RunState& state, const ModelShape& shape,
                               const Config& config);

// The iteration to load: --ckpt-step, else the one that the tracker in --load names. Nothing if
// there is none and
// --exit-on-missing-checkpoint is not given; with it std::runtime_error.
std::optional<int64_t> iteration_to_load(const Config& config);

// Checks that a checkpoint fits this run and says where it goes on. With --finetune, and from
// imported weights, the run starts at iteration 0; from weights saved with --no-save-optim, or with
// --no-load-optim, it goes on with a fresh optimizer. Throws std::invalid_argument naming every
// difference of the architecture, or where the learning-rate schedules differ (reconcile()).
struct Resume {
  RunState state;
  bool load_optimizer = true;
  // What is allowed to differ, but makes the run read other samples than the one that was saved.
  std::vector<std::string> warnings = {};
};
Resume plan_resume(const CheckpointInfo& checkpoint, const ModelShape& shape, const Config& config);

}  // namespace weft
