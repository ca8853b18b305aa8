// Backward's kernels need two values of each query, lse2 and delta (arguments/params.h); they are
// computed here.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft::cuda::attention {

struct Params;

// Fills lse2 and delta, and sets the counters of semaphores.cuh to 0. Where params.bias
// says that values come from dO, it makes their partial sums, too (bias_sums.h).
void backward_rows(cudaStream_t stream, const Params& params, DType x);

}  // namespace weft::cuda::attention
