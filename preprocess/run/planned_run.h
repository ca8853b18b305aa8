// The work of one run and where it is done. It is fixed before anything is done; the steps of the
// run are functions of it:
//
//   earlier_work.h    what earlier runs have left: finished, unfinished, or in the way
//   rank.h            the work itself
//   finish_run.h      from written documents to datasets under their names
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "preprocess/inputs/work_plan.h"
#include "preprocess/run/pipeline_config.h"

namespace weft {

struct PlannedRun {
  // Knows names only. All references must outlive it.
  PlannedRun(const PipelineConfig& its_config, const PipelineEvents& its_events,
             const Vocabulary& vocabulary);
  // Looks at the inputs and fills in the rest. Throws as plan_work(), and UsageError for
  // inputs that several ranks cannot share.
  void look_at_inputs();

  std::vector<std::string> input_names() const;  // in UTF-8
  // PREFIX.lock, which rank 0 holds from the beginning to the end.
  std::filesystem::path lock_path() const { return work_prefix.string() + ".lock"; }
  // About how many bytes the output takes while it is made.
  int64_t need_bytes() const;

  const PipelineConfig& config;
  const PipelineEvents& events;
  const TokenType type;
  const std::filesystem::path work_prefix;
  const std::filesystem::path folder;  // PREFIX.work
  WorkPlan plan;
  std::string identity, hash;    // what is made of what; equal for datasets that are as good
  std::string journal_identity;  // the same of the very same files: unfinished work belongs to it
};

}  // namespace weft
