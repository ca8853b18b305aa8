// --dry-run: what a run would be.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/config.h"
#include "trainer/config/model_shape.h"
#include "trainer/identity/run_vocabulary.h"

namespace weft {

// Returns the scratch that operations need on the planned device.
using WorkspaceBytes = std::function<int64_t(std::span<const AnyOperation> operations)>;
// Returns the device memory of --eval-tasks, which rooms above this one know how to plan.
using PlanEvalTasks =
    std::function<int64_t(const Config& config, const ModelShape& shape,
                          const RunVocabulary& vocabulary, const WorkspaceBytes& workspace_bytes)>;

// Prints what the run would be to `out`: the verdict, warnings and the memory of the rank that
// needs the most; with --verbose everything else. Nothing is allocated on the device.
// `ranks_on_host` of its ranks share this host's memory.
void dry_run(const Config& config, const std::vector<std::string>& notes, int64_t ranks_on_host,
             const PlanEvalTasks& plan_eval_tasks, std::FILE* out);

}  // namespace weft
