// In what the training data of two runs differs: from which iteration on, and by which argument or
// dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "indexed_dataset/run_record/run_timeline.h"

namespace weft {

struct RunDifference {
  int64_t first_iteration = 0, last_iteration = 0;  // those that were compared
  int64_t num_different = 0;                        // iterations
  int64_t first_different = 0;                      // 0: none
  // "--seed: 1234 and 1235": what differs between the two segments of the first different iteration
  // and changes one that was compared; where none is different, what did not matter so far.
  std::vector<std::string> reasons;
};

// Compares iterations [first, last], or as far as both runs' arguments go, trained or not. Two
// iterations are equal if they take the same samples of equal orders, and the same parts of them.
// Orders are compared, and not what their samples hold: where they differ, single samples may still
// be alike. Throws as RunTimeline.
RunDifference compare_runs(const RunTimeline& a, const RunTimeline& b, int64_t first, int64_t last);

}  // namespace weft
