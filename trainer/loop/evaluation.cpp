#include "trainer/loop/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "indexed_dataset/run_record/segment_list.h"

namespace weft {

namespace {

// "validation", or "validation NAME" for one of several groups.
std::string set_name(const std::string& set, const NamedDataset& group) {
  return group.name.empty() ? set : set + " " + group.name;
}

bool is_stop_requested(HostGroup& ranks) {
  int64_t signal[] = {stop_signal()};
  ranks.max(signal);
  return signal[0] != 0;
}

// Returns the first sample of the evaluation that is due after the checkpoint's iteration, if one
// is, in a run that has always been as it is now.
std::optional<int64_t> last_of_equal_evaluations(const Config& config, int64_t iteration,
                                                 const TrainingDatasets& datasets) {
  if (iteration % config.eval_interval != 0) return std::nullopt;
  return (iteration / config.eval_interval - 1) * samples_per_validation(config, datasets);
}

// Returns the same by the arguments of the run that has saved the checkpoint: an earlier part of it
// may have begun the validation set again.
std::optional<int64_t> find_due_evaluation(const RunStart& start, const RunModel& model,
                                           const TrainingDatasets& datasets) {
  const Config& config = start.config;
  const int64_t iteration = model.iteration();
  const std::string& segments = model.state.run_segments_json;
  // With --full-validation segments do not say how often the set was consumed before.
  // Where no segments are known at all, loading has said so.
  if (config.full_validation || segments.empty())
    return last_of_equal_evaluations(config, iteration, datasets);
  try {
    const RunTimeline run(segments_from(
        segments_of_list(parse_json<nlohmann::ordered_json>(segments)), config.run_folder()));
    const auto due = run.of_range(iteration, iteration, Split::kValid);
    if (due.empty() || due.front().at_end) return std::nullopt;
    return due.front().first;
  } catch (const std::exception& error) {
    start.print(fmt::format(
        "WARNING: nothing tells whether an evaluation was due at iteration {}, which is decided as if the run "
        "had always had its present arguments: {}\n",
        iteration, error.what()));
    return last_of_equal_evaluations(config, iteration, datasets);
  }
}

}  // namespace

int64_t samples_per_validation(const Config& config, const TrainingDatasets& datasets) {
  return config.full_validation ? datasets.valid.front().dataset.num_samples()
                                : config.eval_iters * config.global_batch();
}

bool evaluation_was_cut_short(const RunStart& start, const RunModel& model,
                              const TrainingDatasets& datasets) {
  if (datasets.valid.empty() || model.iteration() == 0) return false;
  int64_t was_cut_short = 0;
  if (start.is_first_rank() &&
      find_due_evaluation(start, model, datasets) == model.state.consumed_valid_samples)
    was_cut_short = 1;
  start.ranks.max({&was_cut_short, 1});
  return was_cut_short != 0;
}

// Returns the mean over eval_iters global batches, or with --full-validation over all tokens of a
// set, with as many results in flight as in training; or nothing if a signal cut it short: between
// SIGTERM and SIGKILL there may be 30 seconds, in which the state must be saved.
std::optional<double> Evaluation::mean_loss(DataLoader& loader, bool full) {
  const Config& config = run_.start.config;
  Trainer& trainer = *run_.model.trainer;
  const int64_t num_batches = full ? loader.batches_per_pass() : config.eval_iters;
  double sum = 0, num_loss_tokens = 0;
  std::deque<double> weights;  // of the batches whose results are unread
  const auto read_until = [&](size_t num_unread) {
    while (weights.size() > num_unread) {
      sum += trainer.result().loss * weights.front();
      weights.pop_front();
      loader.release();
    }
  };
  int64_t begun = 0;
  for (; begun < num_batches && !is_stop_requested(run_.start.ranks); ++begun) {
    const GlobalBatch batch = loader.next();
    trainer.evaluate(batch);
    // With --full-validation the loss is a sum over tokens, divided by the tokens of a whole batch.
    const int64_t rows =
        batch.num_micro_batches * config.micro_batch_size * trainer.layout().dp_size;
    weights.push_back(full ? static_cast<double>(rows * config.seq_length) : 1.0);
    num_loss_tokens += batch.num_loss_tokens;
    read_until(run_.device->results_in_flight);
  }
  read_until(0);
  if (begun < num_batches) return std::nullopt;
  return sum / (full ? sum_over_data_ranks(num_loss_tokens) : static_cast<double>(num_batches));
}

// Ranks of one data-parallel rank read the same samples.
double Evaluation::sum_over_data_ranks(double own) const {
  const ParallelLayout& layout = run_.model.trainer->layout();
  std::vector<double> by_rank(static_cast<size_t>(layout.dp_size));
  for (const std::string& text :
       run_.start.ranks.all_gather(fmt::format("{} {:.0f}", layout.dp_rank, own))) {
    const size_t space = text.find(' ');
    by_rank.at(std::stoul(text.substr(0, space))) = std::stod(text.substr(space));
  }
  return std::max(1.0, std::accumulate(by_rank.begin(), by_rank.end(), 0.0));
}

bool Evaluation::validate(bool at_end) {
  const Config& config = run_.start.config;
  RunData& data = *run_.data;
  const RunLog::Pause pause(*run_.log);
  for (size_t i = 0; i < data.valid_loaders.size(); ++i) {
    const std::optional<double> loss = mean_loss(*data.valid_loaders[i], config.full_validation);
    if (!loss) return false;
    run_.log->on_evaluation({set_name("validation", data.datasets.valid[i]), *loss,
                             run_.model.iteration(), run_.model.consumed_samples(), at_end});
  }
  int64_t& consumed = run_.model.state.consumed_valid_samples;
  if (config.full_validation) {
    consumed += samples_per_validation(config, data.datasets);
  } else {
    consumed = data.valid_loaders.front()->consumed_samples();
  }
  return true;
}

bool Evaluation::test() {
  RunData& data = *run_.data;
  for (size_t i = 0; i < data.test_loaders.size(); ++i) {
    const std::optional<double> loss = mean_loss(*data.test_loaders[i], /*full=*/false);
    if (!loss) return false;
    run_.log->on_evaluation({set_name("test", data.datasets.test[i]), *loss, run_.model.iteration(),
                             run_.model.consumed_samples(), /*at_end=*/true});
  }
  return true;
}

}  // namespace weft
