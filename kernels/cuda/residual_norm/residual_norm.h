// The residual norm's host functions: a branch's bias, its dropout, the sum with the residual stream, and
// the LayerNorm or RMSNorm after it. Each enqueues its kernels on `stream` and returns.
//
// C is a multiple of 8 (the backend checks that) and `r` the type of the residual stream. `scratch` holds
// at least the bytes that residual_norm_backward_scratch_bytes returns. The order of every sum depends on
// the shape and the GPU model only, as in memory_bound/kernels.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/backend.h"

namespace weft::cuda {

void residual_norm_forward(cudaStream_t stream, const ResidualNorm& args);
int64_t residual_norm_backward_scratch_bytes(int64_t N, int64_t C, DType r);
// With document_bounds the scratch must also suffice for embedding_backward.
void residual_norm_backward(cudaStream_t stream, const ResidualNormBackward& args, void* scratch);

}  // namespace weft::cuda
