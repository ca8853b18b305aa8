// Attention's kernels for numbers of 16 bits, as the entry points call them.
#pragma once

#include <cuda_runtime.h>

namespace weft::cuda::attention {

struct Params;

// Element is __nv_bfloat16 or __half. There is one function per type, tile and direction, each in
// its own file of this folder: they compile slowly.
template <typename Element, int D, bool kPadded = false>
void forward_16bit(cudaStream_t stream, const Params& params, bool dropout);
// Backward returns whether it left the partial sums of params.bias.
template <typename Element, int D, bool kPadded = false>
bool backward_16bit(cudaStream_t stream, const Params& params, bool dropout);

}  // namespace weft::cuda::attention
