#include "trainer/loop/saving.h"

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/log/log_lines.h"
#include "trainer/step/weight_check.h"

namespace weft {

namespace {

Retention retention_of(const Config& config) {
  return {config.keep_last, config.keep_every, config.save_retain_interval};
}

}  // namespace

Saving::Saving(Run& run) : run_(run), saved_iteration_(run.model.saved_iteration) {
  const Config& config = run.start.config;
  if (!config.async_save) return;
  background_ = std::make_unique<BackgroundSave>(
      *run.device->backend, run.start.ranks,
      BackgroundSaveOptions{config.save, retention_of(config)}, run.model.snapshot_memory);
}

void Saving::check_weights() {
  const RunLog::Pause pause(*run_.log);
  Trainer& trainer = *run_.model.trainer;
  trainer.finish_gathering();
  weft::check_weights(*run_.device->backend, trainer.state_tensors(/*optimizer=*/true),
                      run_.device->groups.layout, run_.start.config.shards_optimizer(),
                      run_.start.ranks);
  run_.log->print(
      fmt::format(">>> Weight hashes match after {} iterations...\n", run_.model.iteration()));
}

void Saving::check_data_unchanged() {
  for (const std::string& warning : run_.inputs.data_watch.check())
    run_.log->print("WARNING: " + warning + "\n");
}

void Saving::save() {
  check_data_unchanged();
  RunLog& log = *run_.log;
  const RunLog::Pause pause(log);
  Trainer& trainer = *run_.model.trainer;
  trainer.finish_gathering();
  const RunStart::Clock::time_point start = RunStart::Clock::now();
  if (is_running()) {
    log.print(
        "WARNING: Starting a checkpoint save before previous has finished. Consider increasing the "
        "checkpoint interval.\n");
    finish();
  }
  const Config& config = run_.start.config;
  const int64_t iteration = run_.model.iteration();
  log.print(saving_line(iteration, config.save));
  RunState state = run_.model.state;
  state.scalars = trainer.scalar_state();
  CheckpointInfo info = checkpoint_info(state, trainer.shape(), config, run_.inputs.identity());
  info.gemm_algorithms = run_.device->backend->algorithms();
  if (background_) {
    trainer.hold_gradients_for(background_->begin(info, saved_tensors()));
    log.print(scheduled_save_line(iteration, config.save));
  } else {
    const bool is_first = run_.start.is_first_rank();
    const auto previous = is_first ? latest_iteration(config.save) : std::nullopt;
    save_checkpoint(config.save, info, saved_tensors(), run_.model.staging, run_.start.ranks);
    if (is_first)
      remove_after_save(config.save, iteration, previous, retention_of(config), complete_);
    log.print(saved_line(iteration, config.save));
  }
  saved_iteration_ = iteration;
  const Timer timer{"save-checkpoint", ms_between(start, RunStart::Clock::now())};
  log.print(timer_line(LogFormat::kMegatron2021, {&timer, 1}));
}

std::vector<StateTensor> Saving::saved_tensors() const {
  const Config& config = run_.start.config;
  return written_by(run_.device->groups.layout, config.shards_optimizer(),
                    run_.model.trainer->state_tensors(/*optimizer=*/!config.no_save_optim));
}

void Saving::report_complete() {
  run_.log->print(saved_line(background_->iteration(), run_.start.config.save));
}

void Saving::advance() {
  if (is_running() && background_->advance()) report_complete();
}

void Saving::finish() {
  if (!is_running()) return;
  background_->finish();
  report_complete();
}

void Saving::try_to_finish() noexcept {
  try {
    finish();
  } catch (...) {
    // The run has another failure to report already.
  }
}

}  // namespace weft
