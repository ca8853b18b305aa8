// Evaluation of a run: losses of the validation and test sets.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "indexed_dataset/run_record/segment_list.h"
#include "trainer/loop/train_loop.h"

namespace weft {

namespace {

// "validation", or "validation NAME" for one of several groups.
std::string set_name(const std::string& set, const NamedDataset& group) {
  return group.name.empty() ? set : set + " " + group.name;
}

}  // namespace

// Returns the mean over eval_iters global batches, or with --full-validation over all tokens of a
// set, with as many results in flight as in training; or nothing if a signal cut it short: between
// SIGTERM and SIGKILL there may be 30 seconds, in which the state must be saved.
std::optional<double> TrainLoop::mean_loss(DataLoader& loader, bool full) {
  const int64_t num_batches = full ? loader.batches_per_pass() : config_.eval_iters;
  double sum = 0, num_loss_tokens = 0;
  std::deque<double> weights;  // of the batches whose results are unread
  const auto read_until = [&](size_t num_unread) {
    while (weights.size() > num_unread) {
      sum += trainer_->result().loss * weights.front();
      weights.pop_front();
      loader.release();
    }
  };
  int64_t begun = 0;
  for (; begun < num_batches && !is_stop_requested(); ++begun) {
    const GlobalBatch batch = loader.next();
    trainer_->evaluate(batch);
    // With --full-validation the loss is a sum over tokens, divided by the tokens of a whole batch.
    const int64_t rows =
        batch.num_micro_batches * config_.micro_batch_size * groups_.layout.dp_size;
    weights.push_back(full ? static_cast<double>(rows * config_.seq_length) : 1.0);
    num_loss_tokens += batch.num_loss_tokens;
    read_until(results_in_flight_);
  }
  read_until(0);
  if (begun < num_batches) return std::nullopt;
  return sum / (full ? sum_over_data_ranks(num_loss_tokens) : static_cast<double>(num_batches));
}

// Ranks of one data-parallel rank read the same samples.
double TrainLoop::sum_over_data_ranks(double own) const {
  std::vector<double> by_rank(static_cast<size_t>(groups_.layout.dp_size));
  for (const std::string& text :
       ranks_.all_gather(fmt::format("{} {:.0f}", groups_.layout.dp_rank, own))) {
    const size_t space = text.find(' ');
    by_rank.at(std::stoul(text.substr(0, space))) = std::stod(text.substr(space));
  }
  return std::max(1.0, std::accumulate(by_rank.begin(), by_rank.end(), 0.0));
}

// Returns false if a signal cut it short; the position in the validation set then stays where it
// was.
bool TrainLoop::evaluate_validation(bool at_end) {
  const RunLog::Pause pause(*log_);
  for (size_t i = 0; i < valid_loaders_.size(); ++i) {
    const std::optional<double> loss = mean_loss(*valid_loaders_[i], config_.full_validation);
    if (!loss) return false;
    log_->on_evaluation({set_name("validation", datasets_.valid[i]), *loss, iteration(),
                         consumed_samples(), at_end});
  }
  if (config_.full_validation) {
    consumed_valid_samples_ += samples_per_validation();
  } else {
    consumed_valid_samples_ = valid_loaders_.front()->consumed_samples();
  }
  return true;
}

bool TrainLoop::evaluate_test() {
  for (size_t i = 0; i < datasets_.test.size(); ++i) {
    const std::optional<double> loss = mean_loss(*test_loaders_[i], /*full=*/false);
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
  if (datasets_.valid.empty() || iteration() == 0) return false;
  int64_t was_cut_short = 0;
  if (is_first_rank() && find_due_evaluation() == consumed_valid_samples_) was_cut_short = 1;
  ranks_.max({&was_cut_short, 1});
  return was_cut_short != 0;
}

// Returns the first sample of the evaluation that is due after the checkpoint's iteration, by the
// arguments of the run that has saved it: an earlier part may have begun the validation set again.
std::optional<int64_t> TrainLoop::find_due_evaluation() const {
  // With --full-validation segments do not tell how often the set was consumed before.
  // Where no segments are known at all, loading has said so.
  if (config_.full_validation || run_segments_json_.empty()) return last_of_equal_evaluations();
  try {
    const RunTimeline run(
        segments_from(segments_of_list(parse_json<nlohmann::ordered_json>(run_segments_json_)),
                      config_.run_folder()));
    const auto due = run.of_range(iteration(), iteration(), Split::kValid);
    if (due.empty() || due.front().at_end) return std::nullopt;
    return due.front().first;
  } catch (const std::exception& error) {
    print(fmt::format(
        "WARNING: nothing tells whether an evaluation was due at iteration {}, which is decided as if the run "
        "had always had its present arguments: {}\n",
        iteration(), error.what()));
    return last_of_equal_evaluations();
  }
}

// Returns the same of a run that has always been as it is now.
std::optional<int64_t> TrainLoop::last_of_equal_evaluations() const {
  if (iteration() % config_.eval_interval != 0) return std::nullopt;
  return (iteration() / config_.eval_interval - 1) * samples_per_validation();
}

// Returns the samples that a validation takes of the first set.
int64_t TrainLoop::samples_per_validation() const {
  return config_.full_validation ? datasets_.valid.front().dataset.num_samples()
                                 : config_.eval_iters * config_.global_batch();
}

}  // namespace weft
