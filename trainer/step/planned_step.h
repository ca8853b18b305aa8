// One training step of a rank as a list of operations, made by running it on a backend without a
// device (kernels/recording_backend.h), among ranks that are not there.
#pragma once

#include <vector>

#include "kernels/operations/any_operation.h"
#include "trainer/parallel/parallel_layout.h"

namespace weft {

struct TrainerOptions;

struct PlannedStep {
  std::vector<AnyOperation> operations;  // of the backend, in order
  std::vector<Operation> collectives;    // of groups of several ranks, in order
};

// Plans a step of two micro-batches, so that gradients are assigned and added to, or of one where
// no batch has more. It is the second step of a run: fp8 has its scales. Throws as Trainer's
// constructor does.
PlannedStep plan_step(const TrainerOptions& options, const ParallelLayout& layout);

}  // namespace weft
