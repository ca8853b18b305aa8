// Attention of one query a sample, as in generation: its time is that of reading keys and values.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/operations/attention.h"

namespace weft::cuda {

// Returns whether single_query_attention() takes the operation: one query, no dropout, heads of up
// to 512 numbers.
bool is_single_query(const AttentionForward& op);
// A block computes a head's chunk of keys. The sums have a fixed order, which does not depend on
// the keys that the query does not see. `scratch` is what the operation takes
// (kernels/cuda_scratch.h).
void single_query_attention(cudaStream_t stream, const AttentionForward& op, void* scratch);

}  // namespace weft::cuda
