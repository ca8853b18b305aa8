// Forward and backward of the residual norm share this. A row of up to a number of vectors belongs to
// a warp, so that it needs no barrier. A longer one belongs to a block with few vectors per thread.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/memory_bound/device.cuh"

namespace weft::cuda {

constexpr int kWarpRowThreads = 256;  // 8 rows a block

template <bool kWarpPerRow, int kCount>
__device__ inline void row_sum(float (&values)[kCount]) {
  if constexpr (kWarpPerRow) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
  } else {
    block_sum(values);
  }
}

// Backward of the sum alone, without a norm: dresidual = dresidual_in, dbranch = dropout'(it).
void residual_sum_backward(cudaStream_t stream, const ResidualNormBackward& args);
// The gradient of a bias whose rows repeat (the positions): row n of `dbranch` (N,C) is added to row
// (first_row + n) % bias_period of dbranch_bias (S,C).
void periodic_bias_backward(cudaStream_t stream, const ResidualNormBackward& args,
                            const Tensor& dbranch);

}  // namespace weft::cuda
