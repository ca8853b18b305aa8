// From JSONL files to Megatron datasets: plans the work, hands it out, commits the result.
//
//   plan_work -> Ledger (rank 0) <-> Rank (every rank) -> commit_run
//
// Everything lies in a work folder until all of it is made. A run that was stopped or
// killed goes on from there; output and messages do not depend on the number of workers or ranks,
// on the size of chunks, or on interruptions.
#pragma once

#include <memory>

#include "preprocess/run/pipeline_config.h"

namespace weft {

// Reads everything, writes all datasets, and returns what was done. On any exception no output is
// complete, and work on inputs that can be read again is kept in the work folder. Throws
// std::runtime_error for a bad line under OnBadLine::kStop, for too many bad lines, for bad lines
// only, and for corrupt compressed input; std::system_error where a file cannot be read or written;
// UsageError where finished or unfinished work of another run is in the way;
// LockedByAnotherRun, ConfigurationDiffers; RunFailed if another rank has failed.
PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events);

}  // namespace weft
