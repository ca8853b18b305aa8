// The logs of a run: which of those in its folder are its own and how far, and its manifest.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/run_record/run_metrics.h"
#include "trainer/log/run_manifest.h"
#include "trainer/loop/run.h"

namespace weft {

namespace {

struct LogPlan {
  std::string run_id = {};
  std::optional<LogEnd> end = {};  // what this run has logged after it is dropped
  bool writes_manifest = true;     // in the run's folder, if it has one
};

// A run that was killed after it had cut the logs has steps in none of them.
void warn_of_lost_steps(const RunStart& start, const std::string& folder, const LogEnd& end) {
  try {
    const std::optional<LoggedStep> step = find_logged_step(folder, end.iteration);
    const int64_t last = std::max(step ? step->iteration : 0, first_iteration_of_logs(folder));
    if (last >= end.iteration) return;
    start.print(
        fmt::format("WARNING: {}: metrics.jsonl lacks the iterations {} to {} of this run\n",
                    folder, last + 1, end.iteration));
  } catch (const std::runtime_error&) {
    // A file that cannot be read is reported when the log is opened.
  }
}

// A new run has no logs of its own yet, whoever has written those in its folder.
LogPlan plan_logs_of_training(const Run& run, const std::string& folder) {
  const LogEnd resumed{run.model.iteration(), run.model.consumed_samples()};
  const std::optional<SharedLogs> shared =
      resumed.iteration > 0 ? find_shared_logs(folder, run.model.state.run_segments_json, resumed)
                            : std::nullopt;
  if (!shared) {
    for (const std::string& name : set_logs_aside(folder, resumed.iteration))
      run.start.print(fmt::format(
          "WARNING: {}: the log there is of another run, or no run manifest tells whose it is; it is kept as {}\n",
          folder, name));
    return {.run_id = "", .end = resumed};
  }
  warn_of_lost_steps(run.start, folder, shared->end);
  if (shared->end.iteration < resumed.iteration) {
    run.start.print(fmt::format(
        "WARNING: {}: after iteration {} the logs there are of another way that this run took. "
        "Their later steps are dropped, and iterations {} to {} of this checkpoint are not in them\n",
        folder, shared->end.iteration, shared->end.iteration + 1, resumed.iteration));
  }
  return {.run_id = shared->run_id, .end = shared->end};
}

// An evaluation adds its losses to the logs of the run whose checkpoint it has loaded, and drops
// nothing of them.
LogPlan plan_logs_of_evaluation(const Run& run, const std::string& folder) {
  const std::vector<std::string> logs = logs_in(folder);
  if (logs.empty()) return {};
  const LogEnd evaluated{run.model.iteration(), run.model.consumed_samples()};
  const bool is_own =
      evaluated.iteration > 0
          ? find_shared_logs(folder, run.model.state.run_segments_json, evaluated).has_value()
          : is_of_untrained_evaluation(folder);
  if (!is_own) {
    throw UsageError(fmt::format(
        "{} holds {} of another run, to which this evaluation (--skip-train) adds nothing: give another --run-dir",
        folder, logs.front()));
  }
  return {.writes_manifest = false};
}

// The last rank writes the logs. The first one reads the manifest, which it will write anew, and
// sends the plan to all.
LogPlan plan_logs(const Run& run) {
  const std::string folder = run.start.config.run_folder();
  LogPlan plan{.writes_manifest = false};
  if (run.start.is_first_rank()) {
    if (!folder.empty()) {
      plan = run.start.config.skip_train ? plan_logs_of_evaluation(run, folder)
                                         : plan_logs_of_training(run, folder);
    }
    if (plan.run_id.empty()) plan.run_id = new_run_id();
  }
  const LogEnd end = plan.end.value_or(LogEnd{});
  std::istringstream of_first(
      run.start.ranks
          .all_gather(fmt::format("{} {} {} {}", plan.run_id, plan.end ? 1 : 0, end.iteration,
                                  end.consumed_samples))
          .front());
  bool has_end = false;
  LogEnd shared;
  of_first >> plan.run_id >> has_end >> shared.iteration >> shared.consumed_samples;
  if (has_end) plan.end = shared;
  return plan;
}

void write_manifest(Run& run, const std::string& run_id) {
  const std::vector<std::string> prefixes = run.inputs.blends.prefixes();
  const Trainer& trainer = *run.model.trainer;
  RunState& state = run.model.state;
  state.run_segments_json =
      write_run_manifest(run.start.config.run_folder(),
                         {.config = run.start.config,
                          .device = run.device->backend->description(),
                          .run_id = run_id,
                          .dataset_prefix = prefixes.size() == 1 ? prefixes.front() : "",
                          .cyclic = state.cyclic,
                          .data = run.inputs.identity(),
                          .unseen = run.inputs.unseen.get(),
                          .padded_vocabulary_size = trainer.shape().padded_vocab_size,
                          .num_parameters = trainer.shape().num_parameters(),
                          .num_iterations = run.schedule.num_iterations(),
                          .train_samples = run.schedule.num_train_samples(),
                          .valid_samples = run.data->sizes.valid_samples,
                          .test_samples = run.data->sizes.test_samples,
                          .resumed_iteration = run.model.iteration(),
                          .resumed_samples = run.model.consumed_samples(),
                          .resumed_tokens = run.model.position().consumed.tokens,
                          .segments_json = state.run_segments_json,
                          .resumed_valid_samples = state.consumed_valid_samples,
                          .makes_up_evaluation = run.data->makes_up_evaluation});
}

}  // namespace

std::unique_ptr<RunLog> open_log(Run& run) {
  const Config& config = run.start.config;
  HostGroup& ranks = run.start.ranks;
  const Trainer& trainer = *run.model.trainer;
  const LogPlan logs = plan_logs(run);
  auto log = std::make_unique<RunLog>(
      RunLog::Options{.config = config,
                      .shape = trainer.shape(),
                      .device = run.device->backend->description(),
                      .num_iterations = run.schedule.num_iterations(),
                      .num_recomputed_layers =
                          num_recomputed_layers(config, trainer.shape(), run.device->groups.layout),
                      .memory_bytes = trainer.plan().device_bytes(),
                      .last_token = run.schedule.at_end(run.model.position()).consumed.tokens,
                      .run_id = logs.run_id,
                      .log_end = logs.end,
                      .prints_text = run.start.is_first_rank(),
                      .logs_steps = ranks.rank() + 1 == ranks.size()},
      run.start.out);
  // The last rank drops steps of other ways first: the manifest must not vouch for them if that
  // fails.
  if (!config.run_folder().empty()) ranks.all_gather("");
  if (logs.writes_manifest && run.start.is_first_rank()) write_manifest(run, logs.run_id);
  return log;
}

}  // namespace weft
