#include "trainer/loop/train_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "indexed_dataset/base/process/stop_signal.h"
#include "trainer/log/log_lines.h"
#include "trainer/log/run_starts.h"

namespace weft {

namespace {

double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

// On a GPU this includes its context and libraries. The host's memory is shared with other
// programs, so there it is the plan's.
int64_t reserved_bytes(const Trainer& trainer, const Backend& backend) {
  if (backend.kind() == DeviceKind::kCpu) return trainer.plan().device_bytes();
  return backend.total_memory_bytes() - backend.free_memory_bytes();
}

}  // namespace

TrainLoop::TrainLoop(Run& run)
    : run_(run),
      config_(run.start.config),
      ranks_(run.start.ranks),
      trainer_(*run.model.trainer),
      log_(*run.log),
      evaluation_(run),
      saving_(run),
      first_iteration_(run.model.iteration() + 1),
      lr_consumed_samples_(run.model.consumed_samples()),
      untrained_steps_(config_.untrained_steps()) {
  if (run.texts.vocabulary) live_model_.emplace(run);
}

ExitCode TrainLoop::run() {
  try {
    const ExitCode code = train_and_finish();
    saving_.finish();
    if (run_.start.is_first_rank() && !config_.run_folder().empty() && !config_.skip_train)
      end_start(config_.run_folder(), static_cast<int>(code), end_);
    return code;
  } catch (...) {
    // The state that is being saved is sound. Several ranks cannot go on together.
    if (ranks_.size() == 1) saving_.try_to_finish();
    throw;
  }
}

ExitCode TrainLoop::train_and_finish() {
  if (!config_.skip_train) {
    log_.print("training ...\n" +
               datetime_line("before the start of training step", timestamp_now()));
    const ExitCode code = train();
    if (code != ExitCode::kDone || iteration() < run_.schedule.num_iterations()) return code;
  }
  return finish();
}

ExitCode TrainLoop::train() {
  log_.training_starts();
  if (run_.data->makes_up_evaluation && !evaluation_.validate(/*at_end=*/false)) {
    return stop(decide_control());  // once more; the checkpoint is still valid
  }
  DataLoader* const loader = run_.data->train_loader.get();
  StepProfiler* const profiler = run_.profile.profiler.get();
  if (run_.start.is_first_rank()) {
    heartbeat_.emplace(Heartbeat::Options{
        .out = run_.start.out, .saves = !config_.save.empty(), .where = [this] {
          const auto [begun, of] = trainer_.micro_batches_begun();
          return begun == 0 ? "" : fmt::format(", micro-batch {} of {}", begun, of);
        }});
  }
  while (iteration() < run_.schedule.num_iterations()) {
    beat(iteration() + 1);
    const double waited_ms = loader->waited_ms();
    const GlobalBatch batch = loader->next();
    ranks_.recorder().set_iteration(iteration() + 1);
    if (is_untrained(iteration() + 1)) {
      pass_over(batch);
    } else {
      if (profiler) profiler->begin_step(iteration() + 1);
      const bool has_updated = trainer_.step(batch, options_of_step(batch));
      if (profiler) profiler->end_step();
      record_step(batch, has_updated, loader->waited_ms() - waited_ms);
      const bool ends_profile = profiler && profiler->is_last(iteration());
      // Those of the step before, while this one runs.
      read_results(ends_profile ? 0 : run_.device->results_in_flight);
      if (ends_profile) report_profile(run_);
    }

    Control control = decide_control();
    const bool acts = control.check_weights || control.evaluate || control.infer || control.save;
    if (acts || control.stop != StopReason::kNone) {
      read_results(0);
      beat(0);
    }
    if (control.check_weights) saving_.check_weights();
    if (control.evaluate && !evaluation_.validate(/*at_end=*/false)) control = decide_control();
    if (control.infer && !live_model_->log_what_is_due()) control = decide_control();
    if (control.save) saving_.save();
    if (control.stop != StopReason::kNone) return stop(control);
  }
  read_results(0);
  return ExitCode::kDone;
}

StepOptions TrainLoop::options_of_step(const GlobalBatch& batch) {
  const LrSchedule& lr = run_.model.state.lr;
  const int64_t shadow_interval = config_.fp8_shadow_interval.value_or(0);
  return {.learning_rate = lr.current(),
          .weight_decay = lr.current_weight_decay(),
          .decoupled_learning_rate = lr.current_decoupled(),
          .num_loss_tokens = count_loss_tokens(batch),
          .params_norm = config_.log_params_norm,
          .fp8_errors = shadow_interval > 0 && (iteration() + 1) % shadow_interval == 0};
}

// With --calculate-per-token-loss all ranks of a step need the tokens of all. Without masks the
// mean over micro-batches is the mean over tokens.
std::optional<double> TrainLoop::count_loss_tokens(const GlobalBatch& batch) {
  if (!config_.calculate_per_token_loss || !config_.has_loss_mask()) return std::nullopt;
  return evaluation_.sum_over_data_ranks(batch.num_loss_tokens);
}

void TrainLoop::beat(int64_t iteration) {
  if (heartbeat_) heartbeat_->iteration_begins(iteration);
}

bool TrainLoop::is_untrained(int64_t iteration) const {
  return std::ranges::any_of(untrained_steps_, [iteration](const StepRange& range) {
    return range.first <= iteration && iteration <= range.last;
  });
}

// Consumes the samples of an iteration without training on them. As in Megatron nothing else moves,
// the learning rate neither.
void TrainLoop::pass_over(const GlobalBatch& batch) {
  read_results(0);
  run_.data->train_loader->release();
  trainer_.pass_over(batch);
  const int64_t batch_size = run_.model.consumed_samples() - lr_consumed_samples_;
  lr_consumed_samples_ = run_.model.consumed_samples();
  log_.on_untrained_step({.iteration = iteration(),
                          .consumed_samples = run_.model.consumed_samples(),
                          .consumed_tokens = run_.model.position().consumed.tokens,
                          .global_batch_size = batch_size,
                          .seq_length = batch.seq_length});
}

// Counts the step that was just enqueued. The learning rate moves after the step, if that updates
// the weights: Megatron logs the next one.
void TrainLoop::record_step(const GlobalBatch& batch, bool has_updated, double batch_wait_ms) {
  const int64_t batch_size = run_.model.consumed_samples() - lr_consumed_samples_;
  lr_consumed_samples_ = run_.model.consumed_samples();
  LrSchedule& lr = run_.model.state.lr;
  const double learning_rate = lr.current();
  const int64_t tokens = run_.model.position().consumed.tokens;
  if (has_updated) lr.advance(batch_size, tokens - batch.num_new_tokens, tokens);
  unread_.push_back({.iteration = iteration(),
                     .consumed_samples = run_.model.consumed_samples(),
                     .consumed_tokens = tokens,
                     .global_batch_size = batch_size,
                     .seq_length = batch.seq_length,
                     .learning_rate = learning_rate,
                     .next_learning_rate = lr.current(),
                     .next_decoupled_rate = lr.current_decoupled(),
                     .batch_wait_ms = batch_wait_ms});
}

// Waits for the oldest steps until at most `max_in_flight` are unread, and logs them. This is the
// only wait of a step.
void TrainLoop::read_results(size_t max_in_flight) {
  while (unread_.size() > max_in_flight) {
    StepResult result = trainer_.result();
    // The sign of a NaN has no meaning; in print it only puzzles.
    result.loss = without_sign_of_nan(result.loss);
    result.grad_norm = without_sign_of_nan(result.grad_norm);
    run_.data->train_loader->release();
    const StepRecord record = unread_.front();
    unread_.pop_front();
    log_.on_step(record, result);
    if (run_.profile.profiler)
      run_.profile.profiler->step_is_read(record.iteration, result.device_ms);
    if (record.iteration == first_iteration_) {
      log_.print(memory_line(0, record.iteration, trainer_.plan().device_bytes(),
                             reserved_bytes(trainer_, *run_.device->backend)));
    }
    if (result.outcome.bad_steps_in_row > 0) tolerate_or_stop(record, result);
  }
}

// Ends the run after a loss or gradient norm that is not finite, or goes on, because
// --skip-bad-steps has left out the update. All ranks see the same numbers.
void TrainLoop::tolerate_or_stop(const StepRecord& record, const StepResult& result) {
  const int64_t in_row = result.outcome.bad_steps_in_row;
  std::string text =
      fmt::format("iteration {} (samples {} to {} of the training set): lm loss {}, grad norm {}",
                  record.iteration, record.consumed_samples - record.global_batch_size,
                  record.consumed_samples - 1, result.loss, result.grad_norm);
  if (config_.fp16) text += fmt::format(" with loss scale {}", result.outcome.loss_scale);
  if (in_row <= config_.skip_bad_steps) {
    log_.print(fmt::format(
        "WARNING: {}; the weights stay as they are ({} in a row, --skip-bad-steps {})\n", text,
        in_row, config_.skip_bad_steps));
    return;
  }
  saving_.finish();
  if (in_row > 1) text += fmt::format(", {} such steps in a row", in_row);
  throw NotFinite(fmt::format(
      "{}; training stops and no checkpoint is written, {}; "
      "look at the samples with `weft-data inspect samples`, or resume with a lower {}{}",
      text,
      saving_.saved_iteration() >= 0
          ? fmt::format("the last one is of iteration {}", saving_.saved_iteration())
          : "and there is none yet",
      // The factor may be what makes the gradients of a finite loss overflow, and it cannot fall.
      result.outcome.loss_scale <= 1 || !std::isfinite(result.loss) ? "--lr"
      : config_.loss_scale                                          ? "--loss-scale"
                                                                    : "--min-loss-scale",
      config_.skip_bad_steps > 0 ? "" : ", or with --skip-bad-steps"));
}

// Signals arrive at ranks at different times, and clocks differ: all ranks do what one has seen. It
// is the one small message of a step.
Control TrainLoop::decide_control() {
  const bool is_over = config_.exit_duration_in_mins &&
                       ms_between(run_.start.process_start, RunStart::Clock::now()) / 6e4 >
                           *config_.exit_duration_in_mins;
  int64_t seen[] = {stop_signal(), is_over ? 1 : 0, saving_.is_busy() ? 1 : 0};
  ranks_.max(seen);
  if (seen[2] == 0) saving_.advance();
  Control control;
  control.stop_signal = static_cast<int>(seen[0]);
  if (control.stop_signal != 0) {
    control.stop = StopReason::kSignal;
  } else if (seen[1] != 0) {
    control.stop = StopReason::kDuration;
  } else if (config_.exit_interval && iteration() % *config_.exit_interval == 0) {
    control.stop = StopReason::kInterval;
  }
  const bool stops = control.stop != StopReason::kNone;
  control.check_weights =
      config_.check_weights_interval && iteration() % *config_.check_weights_interval == 0;
  control.evaluate = !run_.data->datasets.valid.empty() && iteration() % config_.eval_interval == 0;
  control.infer =
      control.stop != StopReason::kSignal && live_model_ && live_model_->is_due(iteration());
  control.save = !config_.save.empty() && (stops || iteration() % *config_.save_interval == 0);
  return control;
}

ExitCode TrainLoop::stop(const Control& control) {
  saving_.finish();
  if (run_.profile.profiler && run_.profile.profiler->has_unreported_steps()) report_profile(run_);
  std::string event;
  switch (control.stop) {
    case StopReason::kSignal:
      event =
          fmt::format("exiting program after receiving {}.", name_of_signal(control.stop_signal));
      break;
    case StopReason::kDuration:
      event = fmt::format("exiting program after {} minutes",
                          ms_between(run_.start.process_start, RunStart::Clock::now()) / 6e4);
      break;
    case StopReason::kInterval:
      event = fmt::format("exiting program at iteration {}", iteration());
      break;
    case StopReason::kNone:
      break;
  }
  end_ = event;
  log_.print(datetime_line(event, timestamp_now()));
  if (control.stop != StopReason::kSignal) return ExitCode::kDone;
  if (config_.save.empty()) log_.print("WARNING: no --save: the state of this run is lost\n");
  return ExitCode::kStoppedOnRequest;
}

ExitCode TrainLoop::finish() {
  log_.print(datetime_line("after training is done", timestamp_now()));
  saving_.check_data_unchanged();
  const bool unsaved =
      !config_.skip_train && iteration() > 0 && saving_.saved_iteration() != iteration();
  if (unsaved && !config_.save.empty()) saving_.save();
  const bool evaluated =
      (run_.data->datasets.valid.empty() || evaluation_.validate(/*at_end=*/true)) &&
      evaluation_.test();
  return evaluated ? ExitCode::kDone : stop(decide_control());
}

}  // namespace weft
