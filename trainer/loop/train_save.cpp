// Checkpoints of a run, in the step or in the background, and the checks before them.
#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/log/log_lines.h"
#include "trainer/loop/train_loop.h"
#include "trainer/step/weight_check.h"

namespace weft {

// It comes before saving, so that no checkpoint holds weights that have drifted apart.
void TrainLoop::check_weights() {
  const RunLog::Pause pause(*log_);
  trainer_->finish_gathering();
  weft::check_weights(*backend_, trainer_->state_tensors(/*optimizer=*/true), groups_.layout,
                      config_.shards_optimizer(), ranks_);
  log_->print(fmt::format(">>> Weight hashes match after {} iterations...\n", iteration()));
}

// A run whose data is changed under it trains on a mixture, and a checkpoint of it would be tied to
// bytes that it was not trained on.
void TrainLoop::check_data_unchanged() {
  for (const std::string& warning : data_watch_.check()) log_->print("WARNING: " + warning + "\n");
}

void TrainLoop::save() {
  check_data_unchanged();
  const RunLog::Pause pause(*log_);
  trainer_->finish_gathering();
  const Clock::time_point start = Clock::now();
  if (background_save_ && background_save_->is_running()) {
    log_->print(
        "WARNING: Starting a checkpoint save before previous has finished. Consider increasing the "
        "checkpoint interval.\n");
    finish_background_save();
  }
  log_->print(saving_line(iteration(), config_.save));
  const RunState state{.scalars = trainer_->scalar_state(),
                       .consumed_valid_samples = consumed_valid_samples_,
                       .lr = lr_,
                       .cyclic = cyclic_,
                       .run_segments_json = run_segments_json_};
  CheckpointInfo info = checkpoint_info(state, trainer_->shape(), config_, data_identity());
  info.gemm_algorithms = backend_->algorithms();
  if (background_save_) {
    trainer_->hold_gradients_for(background_save_->begin(info, saved_tensors()));
    log_->print(scheduled_save_line(iteration(), config_.save));
  } else {
    save_checkpoint(config_.save, info, saved_tensors(), *staging_, ranks_);
    if (config_.keep_last && is_first_rank())
      remove_old_checkpoints(config_.save, iteration(), *config_.keep_last, config_.keep_every,
                             complete_checkpoints_);
    log_->print(saved_line(iteration(), config_.save));
  }
  saved_iteration_ = iteration();
  const Timer timer{"save-checkpoint", ms_since(start)};
  log_->print(timer_line(LogFormat::kMegatron2021, {&timer, 1}));
}

std::vector<StateTensor> TrainLoop::saved_tensors() const {
  return written_by(groups_.layout, config_.shards_optimizer(),
                    trainer_->state_tensors(/*optimizer=*/!config_.no_save_optim));
}

void TrainLoop::advance_background_save() {
  if (background_save_->advance())
    log_->print(saved_line(background_save_->iteration(), config_.save));
}

void TrainLoop::finish_background_save() {
  if (!background_save_ || !background_save_->is_running()) return;
  background_save_->finish();
  log_->print(saved_line(background_save_->iteration(), config_.save));
}

void TrainLoop::try_to_finish_background_save() noexcept {
  try {
    finish_background_save();
  } catch (...) {
    // The run has another failure to tell already.
  }
}

}  // namespace weft
