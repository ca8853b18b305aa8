// Compares a pasted line of a log with the run that it is said to be of.
#pragma once

#include "preprocess/inspect/foreign_runs/log_line.h"
#include "preprocess/inspect/lookup/sample_place.h"

namespace weft {

// Throws std::runtime_error if a line of training tells another number of samples, of tokens or of
// iterations than `stretch`, the samples that the run took in the line's iteration: another order,
// and so other text, goes with such numbers. It names both, and what to change. Throws as
// curriculum_rows_of(), too.
void check_log_line(const LogLine& line, const Stretch& stretch);

}  // namespace weft
