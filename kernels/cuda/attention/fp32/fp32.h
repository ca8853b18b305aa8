// Attention in plain fp32, for exact comparisons and small models. The kernels take any of the head
// sizes.
#pragma once

#include <cuda_runtime.h>

namespace weft::cuda::attention {

struct Params;

void forward_fp32(cudaStream_t stream, const Params& params, bool dropout);
void backward_fp32(cudaStream_t stream, const Params& params, bool dropout);

}  // namespace weft::cuda::attention
