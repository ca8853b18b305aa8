// Turns a run's numbers into those of a checkpoint, and a checkpoint's into the start of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/order/samples/cyclic_order.h"
#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/config/config.h"
#include "trainer/config/lr_schedule.h"
#include "trainer/config/model_shape.h"
#include "trainer/resume/choose_checkpoint.h"

namespace weft {

// The counters and the schedule of a run, which checkpoints keep beside the tensors.
struct RunState {
  ScalarState scalars;  // iteration and consumed samples, among others
  int64_t consumed_valid_samples = 0;
  LrSchedule lr;
  // The sizes by which the order of --dataloader-type cyclic was cut in the run that began it;
  // empty for another order.
  std::optional<CyclicOptions> cyclic = {};
  // The segments up to here (checkpoint_info.h).
  std::string run_segments_json = {};
};

CheckpointInfo checkpoint_info(const RunState& state, const ModelShape& shape, const Config& config,
                               const DataIdentity& data);

// Returns the checkpoint to load: that of --ckpt-step, else choose_checkpoint() of --load. Where
// there is none, it returns nothing, or throws std::runtime_error with
// --exit-on-missing-checkpoint, and UsageError for a Hugging Face folder. Throws what
// choose_checkpoint() throws.
std::optional<CheckpointChoice> checkpoint_to_load(const Config& config);

// Returns whether both options name one folder, however they spell it.
bool loads_from_its_save_folder(const Config& config);

// Throws UsageError if --save holds an iter_ folder of another program, or if the run
// would start anew, or from another folder, and overwrite
// the checkpoints in --save, unless --overwrite asks for that. `loads` tells whether it loads one.
void check_save_folder(const Config& config, bool loads);

struct Resume {
  RunState state;
  bool load_optimizer = true;
  // Differences that are allowed, although the run reads other samples than the one that was saved,
  // or a vocabulary of other words.
  std::vector<std::string> warnings = {};
};
// Checks that a checkpoint fits this run and says where the run goes on. With --finetune, and from
// imported weights, it starts at iteration 0. From weights saved with --no-save-optim, or with
// --no-load-optim, it goes on with a fresh optimizer. Throws UsageError, which names
// every difference of the architecture, where the learning-rate schedules differ (reconcile()), and
// where samples would come twice or not at all (check_place_is_known(), compare_blends());
// std::runtime_error where the bytes of the dataset were changed under its name, or its vocabulary
// is another one.
Resume plan_resume(const CheckpointInfo& checkpoint, const ModelShape& shape, const Config& config,
                   const DataIdentity& data);

}  // namespace weft
