// The tensors that pipeline stages send each other between micro-batches.
#pragma once

#include "trainer/model/model.h"
#include "trainer/parallel/pipeline_order.h"
#include "trainer/parallel/process_groups.h"

namespace weft {

// Enqueues the exchange of `work`. With `scatters` each tensor-parallel rank of a stage sends its
// part of a tensor that all of them hold, and the ranks of the next stage gather the parts.
void exchange_between_stages(const PipelineWork& work, const ProcessGroups& groups, Model& model,
                             bool scatters);

}  // namespace weft
