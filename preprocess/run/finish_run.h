// From written documents to datasets under their names: what rank 0 does when all tasks are done.
#pragma once

#include "preprocess/ledger/local_ledger.h"
#include "preprocess/run/planned_run.h"
#include "preprocess/run/run_files.h"

namespace weft {

// When the last task is done: fills in what was read, checks that it may become a dataset, prepares
// the files, and lets the ledger hand out the rest of the last passes. Returns whether it has; to be
// called again if not. Throws std::runtime_error if no line is a document, or an input has changed.
bool begin_last_passes(const PlannedRun& run, RunFiles& files, LocalLedger& ledger,
                       PipelineReport& report);

// When the last passes are done: writes checksums and manifests, and gives all files their names.
// Throws PipelineStopped, std::system_error.
void commit_datasets(const PlannedRun& run, const RunFiles& files, LocalLedger& ledger,
                     PipelineReport& report);

}  // namespace weft
