// The gradients of keys that several heads of queries share.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/numbers/head_vectors.h"

namespace weft::cuda::attention {

// sums (B,T,G,D) = the sums of inp (B,T,H,D) over the H/G heads of each group, in their order.
void sum_groups(cudaStream_t stream, const HeadVectors& sums, const HeadVectors& inp);

}  // namespace weft::cuda::attention
