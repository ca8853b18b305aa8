// From written documents to datasets under their names: what rank 0 does when all tasks are done.
// All files of a run get their names, or, after a crash, all the next time.
//
// PREFIX.work/commit is written when every file is whole and synced. From then on nothing can fail
// for want of space, and the next run that finds the file carries on:
//
//   weft-commit 3 HASH         the run's hash (run_identity.h), which says what the names are
//
//   1. Where PREFIX.work/K.idx is there, an .idx of the K-th dataset's name is an old one: removed.
//   2. Every file of the K-th dataset that is in PREFIX.work gets its name; the .idx of all
//      datasets come last, since an .idx says that its pair is complete.
//   3. PREFIX.work is removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/ledger/local_ledger.h"
#include "preprocess/rank/run_files.h"
#include "preprocess/run/planned_run.h"

namespace weft {

// When the last task is done: fills in what was read, checks that it may become a dataset, prepares
// the files, and lets the ledger hand out the rest of the last passes. Returns whether it has; to
// be called again if not. Throws std::runtime_error if no line is a document, or an input has
// changed.
bool begin_last_passes(const PlannedRun& run, RunFiles& files, LocalLedger& ledger,
                       PipelineReport& report);

// When the last passes are done: writes checksums and manifests. Throws RankStopped,
// std::system_error.
void complete_datasets(const PlannedRun& run, const RunFiles& files, LocalLedger& ledger,
                       PipelineReport& report);

// Gives all files their names. `prefixes` are those of the datasets, in the order of their keys;
// the caller holds their locks (DatasetLocks) and knows that nothing is lost there. Throws
// std::system_error.
void commit_run(const std::filesystem::path& folder, const std::string& run_hash,
                const std::vector<std::filesystem::path>& prefixes);

// The hash of the run whose commit was interrupted; nothing if none was. Throws std::runtime_error
// for a commit file that no run writes.
std::optional<std::string> find_interrupted_commit(const std::filesystem::path& folder);

// True if the commit had begun to give files their names: every .idx that stood there before is
// gone.
bool has_begun_renaming(const std::filesystem::path& folder);

// Ends the commit of a run with these prefixes. Throws std::system_error.
void resume_commit(const std::filesystem::path& folder,
                   const std::vector<std::filesystem::path>& prefixes);

}  // namespace weft
