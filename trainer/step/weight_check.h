// Checks that ranks which hold the same elements hold the same bits: replicas over data-parallel
// ranks, parameters that every tensor-parallel rank has whole, and bf16 or fp16 weights against
// their fp32 masters. Drift is silent otherwise, and loss shows it thousands of steps later.
// [BigScience found tensor-parallel drift in all checkpoints of its 104B model, long after the
// fact]
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "trainer/parallel/parallel_layout.h"
#include "trainer/ranks/host_group.h"
#include "trainer/step/training_state.h"

namespace weft {

// Compares `tensors`, all state tensors of this rank; all ranks call it. With `shards_optimizer`
// each data-parallel rank holds its own part of "optimizer/...". It copies them to the host and
// waits. Throws ChecksumMismatch on every rank alike, which names tensors and ranks.
void check_weights(Backend& backend, const std::vector<StateTensor>& tensors,
                   const ParallelLayout& layout, bool shards_optimizer, HostGroup& ranks);

}  // namespace weft
