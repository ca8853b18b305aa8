// Evaluation of a run: losses of the validation and test sets.
#include <fmt/format.h>

#include "trainer/train_loop.h"

namespace weft {

namespace {

// "validation", or "validation NAME" for one of several groups.
std::string set_name(const std::string& set, const NamedDataset& group) {
  return group.name.empty() ? set : set + " " + group.name;
}

}  // namespace

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

}  // namespace weft
