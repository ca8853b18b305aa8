// Finds what earlier runs have left where this one works: a finished dataset, a commit that was
// interrupted, unfinished work to go on with, or something of others that is in the way.
#pragma once

#include <optional>
#include <vector>

#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/ledger.h"
#include "preprocess/run/planned_run.h"

namespace weft {

// Carries out a commit of this run that was interrupted. Throws UsageError for one of
// other options or inputs: it would give names to files that this run was not asked for; and if
// another program has made a file of one of the names since. For that, what already has its name is
// read and compared with its checksums. Throws RankStopped if asked to stop meanwhile.
void resume_earlier_commit(const PlannedRun& run);

// The datasets that this run would make, if all are there and need not be replaced.
std::optional<std::vector<OutputReport>> find_finished(const PlannedRun& run);

// Throws UsageError if a dataset that is there would be lost.
void check_outputs_are_free(const PlannedRun& run);

// The unfinished work of this run; other work is removed. Throws UsageError for work
// that may be wanted.
std::optional<Journal::Content> find_work(const PlannedRun& run);

// True if a run after this one, which has failed, can go on with the work in the folder.
bool is_work_of_use(const PlannedRun& run) noexcept;

// The ledger of this run with the tasks that `work` says are done.
Ledger restored_ledger(const PlannedRun& run, const std::optional<Journal::Content>& work,
                       const Ledger::Limits& limits);

}  // namespace weft
