// The gradient of a bias of queries, keys and values, which is the sum of dqkv over all tokens,
// without a pass over dqkv:
// - Queries: a warp of the fused backward kernel adds up dQ in shared memory, where it is complete
//   (hopper_backward/dq_columns.cuh).
// - Values: a query's probabilities add up to 1, so the sum of dV over keys is that of dO over
//   queries. The kernel that reads dO for delta adds it up. Dropout changes probabilities, so there
//   the fused kernel adds up the dV of its keys.
// - Keys: sum over keys of dK = scale * sum over queries q of (sum over keys of dS[q]) Q[q] = 0,
//   because softmax makes the gradients dS[q] of a query's scores add up to 0, with dropout,
//   documents and ALiBi, too.
//
// The kernels leave sums of some tokens in memory, and a last one adds these up in a fixed order.
// Kernels of other types, tiles and GPUs leave none; there sum_dqkv reads dqkv.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/numbers/tensor.h"
#include "kernels/operations/attention.h"

namespace weft::cuda {

// Fills in dqkv_bias by a pass over dqkv. `scratch` is device memory of what the operation takes
// (kernels/cuda_scratch.h), 256-byte aligned.
void sum_dqkv(cudaStream_t stream, const AttentionBackward& args, void* scratch);

namespace attention {

struct BiasSums;
struct Params;

// Returns where the partial sums lie in `memory` of bias_sums_bytes() (kernels/flash_attention.h).
BiasSums bias_sums(const Params& params, int64_t columns, bool dropout, float* memory);

// out (H,3,D) (+)= the sums of params.bias.
void add_bias_sums(cudaStream_t stream, const Tensor& out, const Params& params, bool accumulate);

}  // namespace attention
}  // namespace weft::cuda
