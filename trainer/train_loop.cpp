#include "trainer/train_loop.h"

#include <fmt/format.h>

#include <cmath>

#include "indexed_dataset/process/stop_signal.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/log/log_lines.h"
#include "trainer/step/weight_check.h"

namespace weft {

namespace {

double ms_since(TrainLoop::Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(TrainLoop::Clock::now() - start).count();
}

double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

// "validation", or "validation NAME" for one of several groups.
std::string set_name(const std::string& set, const NamedDataset& group) {
  return group.name.empty() ? set : set + " " + group.name;
}

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
  if (evaluation_was_cut_short() && !evaluate_validation(/*at_end=*/false)) {
    return stop(decide_control());  // once more; the checkpoint is still valid
  }
  while (iteration() < schedule_.num_iterations()) {
    const double waited_ms = train_loader_->waited_ms();
    const GlobalBatch batch = train_loader_->next();
    ranks_.recorder().set_iteration(iteration() + 1);
    trainer_->step(batch, {.learning_rate = lr_.current(), .params_norm = config_.log_params_norm});
    record_step(train_loader_->waited_ms() - waited_ms);
    read_results(results_in_flight_);  // those of the step before, while this one runs

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

// Counts the step that was just enqueued. The learning rate moves after the step: Megatron logs the
// next one.
void TrainLoop::record_step(double batch_wait_ms) {
  const int64_t batch_size = consumed_samples() - lr_consumed_samples_;
  lr_consumed_samples_ = consumed_samples();
  const double learning_rate = lr_.current();
  lr_.advance(batch_size);
  unread_.push_back({.iteration = iteration(),
                     .consumed_samples = consumed_samples(),
                     .global_batch_size = batch_size,
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
    if (record.iteration == first_iteration_) {
      log_->print(
          memory_line(0, record.iteration, trainer_->plan().device_bytes(), reserved_bytes()));
    }
    if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) continue;
    finish_background_save();  // all ranks see the same numbers
    throw NotFinite(fmt::format(
        "iteration {} (samples {} to {} of the training set): lm loss {}, grad norm {}; "
        "training stops and no checkpoint is written, {}; "
        "look at the samples with `weft-data inspect samples`, or resume with a lower --lr",
        record.iteration, record.consumed_samples - record.global_batch_size,
        record.consumed_samples - 1, result.loss, result.grad_norm,
        saved_iteration_ >= 0 ? fmt::format("the last one is of iteration {}", saved_iteration_)
                              : "and there is none yet"));
  }
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

// --- evaluation ---

// Returns the mean over eval_iters global batches, with as many results in flight as in training,
// or nothing if a signal cut it short: between SIGTERM and SIGKILL there may be 30 seconds, in
// which the state must be saved.
std::optional<double> TrainLoop::mean_loss(DataLoader& loader) {
  double sum = 0;
  int64_t begun = 0, num_read = 0;
  const auto read_until = [&](int64_t count) {
    for (; num_read < count; ++num_read) {
      sum += trainer_->result().loss;
      loader.release();
    }
  };
  while (begun < config_.eval_iters && !is_stop_requested()) {
    trainer_->evaluate(loader.next());
    read_until(++begun - static_cast<int64_t>(results_in_flight_));
  }
  read_until(begun);
  if (begun < config_.eval_iters) return std::nullopt;
  return sum / static_cast<double>(config_.eval_iters);
}

// Returns false if a signal cut it short; the position in the validation set then stays where it
// was.
bool TrainLoop::evaluate_validation(bool at_end) {
  const RunLog::Pause pause(*log_);
  for (size_t i = 0; i < valid_loaders_.size(); ++i) {
    const std::optional<double> loss = mean_loss(*valid_loaders_[i]);
    if (!loss) return false;
    log_->on_evaluation({set_name("validation", datasets_.valid[i]), *loss, iteration(),
                         consumed_samples(), at_end});
  }
  consumed_valid_samples_ = valid_loaders_.front()->consumed_samples();
  return true;
}

bool TrainLoop::evaluate_test() {
  for (size_t i = 0; i < datasets_.test.size(); ++i) {
    const std::optional<double> loss = mean_loss(*test_loaders_[i]);
    if (!loss) return false;
    log_->on_evaluation({set_name("test", datasets_.test[i]), *loss, iteration(),
                         consumed_samples(), /*at_end=*/true});
  }
  return true;
}

// Returns whether the checkpoint of this run was saved on a signal in place of the evaluation that
// was due. That evaluation is made up for, so that later ones use the samples that an undisturbed
// run uses.
bool TrainLoop::evaluation_was_cut_short() const {
  if (datasets_.valid.empty() || iteration() == 0 || iteration() % config_.eval_interval != 0)
    return false;
  const int64_t per_evaluation = config_.eval_iters * config_.global_batch();
  return consumed_valid_samples_ == (iteration() / config_.eval_interval - 1) * per_evaluation;
}

// --- checkpoints ---

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
                       .lr = lr_};
  CheckpointInfo info = checkpoint_info(state, trainer_->shape(), config_, data_identity());
  info.gemm_algorithms = backend_->algorithms();
  if (background_save_) {
    trainer_->hold_update_for(background_save_->begin(info, saved_tensors()));
    log_->print(scheduled_save_line(iteration(), config_.save));
  } else {
    save_checkpoint(config_.save, info, saved_tensors(), *staging_, ranks_);
    if (config_.keep_last && is_first_rank())
      remove_old_checkpoints(config_.save, iteration(), *config_.keep_last, config_.keep_every);
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
