// Compares two checkpoints tensor by tensor, whatever ranks have written them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_reader.h"

namespace weft {

struct CheckpointDifferences {
  int64_t num_equal = 0;  // tensors whose values are all equal
  // One line for each other tensor: the number of elements that differ, the greatest difference,
  // and the norm of the difference relative to the first one's; or that only one of the two has it.
  std::vector<std::string> lines;
};

// Compares values as fp32. Throws as CheckpointReader::read().
CheckpointDifferences compare_checkpoints(CheckpointReader& first, CheckpointReader& second);

}  // namespace weft
