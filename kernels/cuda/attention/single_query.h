// Attention of one query a sample, as in generation: its time is that of reading keys and values.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/operations/attention.h"

namespace weft::cuda {

// Returns whether single_query_attention() takes the operation: one query, no dropout, heads of up
// to 256 numbers in multiples of 8, and as many keys as shared memory has scores for.
bool is_single_query(const AttentionForward& op);
// A block computes a head. The sums have a fixed order.
void single_query_attention(cudaStream_t stream, const AttentionForward& op);

}  // namespace weft::cuda
