#include "trainer/loop/train_loop.h"

#include <fmt/format.h>

#include <cmath>

#include "indexed_dataset/base/process/stop_signal.h"
#include "trainer/log/log_lines.h"

namespace weft {

namespace {

double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

}  // namespace

ExitCode TrainLoop::run() {
  try {
    const ExitCode code = train_and_finish();
    finish_background_save();
    return code;
  } catch (...) {
    // The state that is being saved is sound. Several ranks cannot go on together.
    if (ranks_.size() == 1) try_to_finish_background_save();
    throw;
  }
}

ExitCode TrainLoop::train_and_finish() {
  if (!config_.skip_train) {
    log_->print("training ...\n" +
                datetime_line("before the start of training step", timestamp_now()));
    const ExitCode code = train();
    if (code != ExitCode::kDone || iteration() < schedule_.num_iterations()) return code;
  }
  return finish();
}

ExitCode TrainLoop::train() {
  log_->training_starts();
  if (makes_up_evaluation_ && !evaluate_validation(/*at_end=*/false)) {
    return stop(decide_control());  // once more; the checkpoint is still valid
  }
  while (iteration() < schedule_.num_iterations()) {
    const double waited_ms = train_loader_->waited_ms();
    const GlobalBatch batch = train_loader_->next();
    ranks_.recorder().set_iteration(iteration() + 1);
    if (profiler_) profiler_->begin_step(iteration() + 1);
    const int64_t shadow_interval = config_.fp8_shadow_interval.value_or(0);
    const bool has_updated = trainer_->step(
        batch, {.learning_rate = lr_.current(),
                .params_norm = config_.log_params_norm,
                .fp8_errors = shadow_interval > 0 && (iteration() + 1) % shadow_interval == 0});
    if (profiler_) profiler_->end_step();
    record_step(batch, has_updated, train_loader_->waited_ms() - waited_ms);
    // Those of the step before, while this one runs.
    read_results(ends_profile() ? 0 : results_in_flight_);
    if (ends_profile()) report_profile();

    Control control = decide_control();
    const bool acts = control.check_weights || control.evaluate || control.save;
    if (acts || control.stop != StopReason::kNone) read_results(0);
    if (control.check_weights) check_weights();
    if (control.evaluate && !evaluate_validation(/*at_end=*/false)) control = decide_control();
    if (control.save) save();
    if (control.stop != StopReason::kNone) return stop(control);
  }
  read_results(0);
  return ExitCode::kDone;
}

// Counts the step that was just enqueued. The learning rate moves after the step, if that updates
// the weights: Megatron logs the next one.
void TrainLoop::record_step(const GlobalBatch& batch, bool has_updated, double batch_wait_ms) {
  const int64_t batch_size = consumed_samples() - lr_consumed_samples_;
  lr_consumed_samples_ = consumed_samples();
  const double learning_rate = lr_.current();
  const int64_t tokens = position().consumed.tokens;
  if (has_updated) lr_.advance(batch_size, tokens - batch.num_new_tokens, tokens);
  unread_.push_back({.iteration = iteration(),
                     .consumed_samples = consumed_samples(),
                     .consumed_tokens = tokens,
                     .global_batch_size = batch_size,
                     .seq_length = batch.seq_length,
                     .learning_rate = learning_rate,
                     .next_learning_rate = lr_.current(),
                     .batch_wait_ms = batch_wait_ms});
}

// Waits for the oldest steps until at most `max_in_flight` are unread, and logs them. This is the
// only wait of a step.
void TrainLoop::read_results(size_t max_in_flight) {
  while (unread_.size() > max_in_flight) {
    StepResult result = trainer_->result();
    // The sign of a NaN has no meaning; in print it only puzzles.
    result.loss = without_sign_of_nan(result.loss);
    result.grad_norm = without_sign_of_nan(result.grad_norm);
    train_loader_->release();
    const StepRecord record = unread_.front();
    unread_.pop_front();
    log_->on_step(record, result);
    if (profiler_) profiler_->step_is_read(record.iteration, result.device_ms);
    if (record.iteration == first_iteration_) {
      log_->print(
          memory_line(0, record.iteration, trainer_->plan().device_bytes(), reserved_bytes()));
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
    log_->print(fmt::format(
        "WARNING: {}; the weights stay as they are ({} in a row, --skip-bad-steps {})\n", text,
        in_row, config_.skip_bad_steps));
    return;
  }
  finish_background_save();
  if (in_row > 1) text += fmt::format(", {} such steps in a row", in_row);
  throw NotFinite(fmt::format(
      "{}; training stops and no checkpoint is written, {}; "
      "look at the samples with `weft-data inspect samples`, or resume with a lower {}{}",
      text,
      saved_iteration_ >= 0 ? fmt::format("the last one is of iteration {}", saved_iteration_)
                            : "and there is none yet",
      // The factor may be what makes the gradients of a finite loss overflow, and it cannot fall.
      result.outcome.loss_scale <= 1 || !std::isfinite(result.loss) ? "--lr"
      : config_.loss_scale                                          ? "--loss-scale"
                                                                    : "--min-loss-scale",
      config_.skip_bad_steps > 0 ? "" : ", or with --skip-bad-steps"));
}

// On a GPU this includes its context and libraries. The host's memory is shared with other
// programs, so there it is the plan's.
int64_t TrainLoop::reserved_bytes() const {
  if (backend_->kind() == DeviceKind::kCpu) return trainer_->plan().device_bytes();
  return backend_->total_memory_bytes() - backend_->free_memory_bytes();
}

// Signals arrive at ranks at different times, and clocks differ: all ranks do what one has seen. It
// is the one small message of a step.
Control TrainLoop::decide_control() {
  const bool is_over = config_.exit_duration_in_mins &&
                       ms_since(process_start_) / 6e4 > *config_.exit_duration_in_mins;
  const bool is_saving = background_save_ && background_save_->is_running();
  int64_t seen[] = {stop_signal(), is_over ? 1 : 0,
                    is_saving && background_save_->is_busy() ? 1 : 0};
  ranks_.max(seen);
  if (is_saving && seen[2] == 0) advance_background_save();
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
  control.evaluate = !datasets_.valid.empty() && iteration() % config_.eval_interval == 0;
  control.save = !config_.save.empty() && (stops || iteration() % *config_.save_interval == 0);
  return control;
}

bool TrainLoop::is_stop_requested() {
  int64_t signal[] = {stop_signal()};
  ranks_.max(signal);
  return signal[0] != 0;
}

ExitCode TrainLoop::stop(const Control& control) {
  finish_background_save();
  if (profiler_ && profiler_->has_unreported_steps()) report_profile();
  std::string event;
  switch (control.stop) {
    case StopReason::kSignal:
      event =
          fmt::format("exiting program after receiving {}.", name_of_signal(control.stop_signal));
      break;
    case StopReason::kDuration:
      event = fmt::format("exiting program after {} minutes", ms_since(process_start_) / 6e4);
      break;
    case StopReason::kInterval:
      event = fmt::format("exiting program at iteration {}", iteration());
      break;
    case StopReason::kNone:
      break;
  }
  log_->print(datetime_line(event, timestamp_now()));
  if (control.stop != StopReason::kSignal) return ExitCode::kDone;
  if (config_.save.empty()) log_->print("WARNING: no --save: the state of this run is lost\n");
  return ExitCode::kStoppedOnRequest;
}

ExitCode TrainLoop::finish() {
  log_->print(datetime_line("after training is done", timestamp_now()));
  check_data_unchanged();
  const bool unsaved = !config_.skip_train && iteration() > 0 && saved_iteration_ != iteration();
  if (unsaved && !config_.save.empty()) save();
  const bool evaluated =
      (datasets_.valid.empty() || evaluate_validation(/*at_end=*/true)) && evaluate_test();
  return evaluated ? ExitCode::kDone : stop(decide_control());
}

}  // namespace weft
