// Attention backward in tiles of 160 columns for heads above 96 that fill no tile.
#include "kernels/cuda/attention/instances/backward.cuh"

namespace weft::cuda::attention {

template bool backward_16bit<__nv_bfloat16, 160, /*kPadded=*/true>(cudaStream_t stream,
                                                                   const Params& params,
                                                                   bool dropout);
template bool backward_16bit<__half, 160, /*kPadded=*/true>(cudaStream_t stream,
                                                            const Params& params, bool dropout);

}  // namespace weft::cuda::attention
