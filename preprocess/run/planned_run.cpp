#include "preprocess/run/planned_run.h"

#include <stdexcept>
#include <utility>

#include "preprocess/run/disk_space_check.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/work_folder.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

PlannedRun::PlannedRun(const PipelineConfig& its_config, const PipelineEvents& its_events,
                       const Vocabulary& vocabulary)
    : config(its_config),
      events(its_events),
      type(token_type(config.rules, vocabulary.size())),
      work_prefix(config.work_prefix.empty() ? config.output_prefixes.at(0) : config.work_prefix),
      folder(work_folder(work_prefix)) {}

void PlannedRun::look_at_inputs() {
  try {
    plan = plan_work(config.inputs, config.task_bytes, config.allow_http);
  } catch (const ReadCancelled&) {  // a signal while a server was asked
    throw PipelineStopped{.work_is_kept = std::filesystem::exists(folder / "journal")};
  }
  if (config.num_shards > 1) plan = shard_of(std::move(plan), config.shard_idx, config.num_shards);
  identity = run_identity(config, type, plan.identities);
  hash = run_hash(identity);
  journal_identity = run_identity(config, type, plan.identities, IdentityFor::kJournal);
  if (config.num_ranks() > 1 && !plan.can_resume()) {
    throw std::invalid_argument(
        "several ranks cannot share standard input or a pipe; give files, or start one process");
  }
}

std::vector<std::string> PlannedRun::input_names() const {
  std::vector<std::string> names;
  for (const std::string& input : config.inputs) names.push_back(input_name(input));
  return names;
}

int64_t PlannedRun::need_bytes() const {
  return estimated_output_bytes(plan, type, config.rules.keeps_origins());
}

}  // namespace weft
