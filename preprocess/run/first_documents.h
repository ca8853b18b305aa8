// The part of a run's work that holds its first documents (--limit).
#pragma once

#include <atomic>
#include <cstdint>

#include "preprocess/inputs/work_plan.h"
#include "preprocess/rank/rank_options.h"

namespace weft {

// The plan without what comes behind its first `count` documents: it depends on the inputs and the
// rules only. Lines that have texts under the keys count, also where --special error refuses them.
// Reads the inputs as far as it counts. Throws as Input::open and ByteSource::read, and
// UsageError for a pipe, which can be read only once.
WorkPlan first_documents(WorkPlan plan, int64_t count, const RankOptions& options,
                         const std::atomic<bool>& cancelled);

}  // namespace weft
