// Communicators that record each collective while a step is profiled.
#pragma once

#include "trainer/parallel/process_groups.h"
#include "trainer/profile/operation_recorder.h"

namespace weft {

// Returns `groups` with communicators that call theirs; groups that share one still do. Groups of
// one rank stay as they are, because their operations do nothing. `recorder` outlives the groups.
ProcessGroups with_profile(ProcessGroups groups, OperationRecorder& recorder);

}  // namespace weft
