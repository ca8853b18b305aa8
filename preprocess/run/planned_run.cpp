#include "preprocess/run/planned_run.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/inputs/look_at_inputs.h"
#include "preprocess/rank/task_reader.h"
#include "preprocess/run/disk_space_check.h"
#include "preprocess/run/first_documents.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/work_folder.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

namespace {

// A flag for sources that wait, which a thread sets soon after `stop_requested` says so.
class StopFlag {
 public:
  explicit StopFlag(const std::function<bool()>& stop_requested)
      : thread_([this, &stop_requested](const std::stop_token& ended) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any end;
          while (!ended.stop_requested() && !flag_) {
            flag_ = stop_requested();
            end.wait_for(lock, ended, std::chrono::milliseconds(50), [] { return false; });
          }
        }) {}
  const std::atomic<bool>& flag() const { return flag_; }

 private:
  std::atomic<bool> flag_{false};
  std::jthread thread_;
};

// Texts that do not end with lines are not found from the middle of a file.
int64_t task_bytes_of(const PipelineConfig& config) {
  return config.rules.split_at() == SplitAt::kLine ? config.task_bytes
                                                   : std::numeric_limits<int64_t>::max();
}

}  // namespace

PlannedRun::PlannedRun(const PipelineConfig& its_config, const PipelineEvents& its_events,
                       const Vocabulary& vocabulary)
    : config(its_config),
      events(its_events),
      type(token_type(config.rules, vocabulary.size())),
      work_prefix(config.work_prefix.empty() ? config.output_prefixes.at(0) : config.work_prefix),
      folder(work_folder(work_prefix)) {}

void PlannedRun::look_at_inputs() {
  try {
    const StopFlag stopped(events.stop_requested);
    RunRanks* const ranks = config.ranks;
    const std::string found =
        config.rank() > 0 ? ranks->wait_for_listing(events.stop_requested) : "";
    plan = plan_work(make_inputs(config.inputs, config.http), task_bytes_of(config), stopped.flag(),
                     config.rules.split_texts_at ? RowRequest{} : rows_wanted(config), found);
    if (ranks && config.rank() == 0) ranks->send_listing(found_text(plan.inputs));
    for (const auto& input : plan.inputs) check_can_be_read(*input, config.rules);
    if (config.max_documents >= 0)
      plan = first_documents(std::move(plan), config.max_documents, config, stopped.flag());
  } catch (const ReadCancelled&) {  // a signal while a server was asked
    throw PipelineStopped{.work_is_kept = std::filesystem::exists(folder / "journal")};
  }
  if (config.num_shards > 1) plan = shard_of(std::move(plan), config.shard_idx, config.num_shards);
  identity = run_identity(config, type, plan.inputs);
  hash = run_hash(identity);
  journal_identity = run_identity(config, type, plan.inputs, IdentityFor::kJournal);
  if (config.num_ranks() > 1 && !plan.can_resume()) {
    throw UsageError(
        "several ranks cannot share standard input or a pipe; give files, or start one process");
  }
}

std::vector<std::string> PlannedRun::input_names() const {
  std::vector<std::string> names;
  for (const auto& input : plan.inputs) names.push_back(utf8_name(*input));
  return names;
}

int64_t PlannedRun::need_bytes() const {
  return estimated_output_bytes(plan, type, config.rules.keeps_origins());
}

}  // namespace weft
