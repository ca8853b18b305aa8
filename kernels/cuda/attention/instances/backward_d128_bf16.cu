// Attention backward for head size 128 in bf16.
#include "kernels/cuda/attention/instances/backward.cuh"

namespace weft::cuda::attention {

template bool backward_16bit<__nv_bfloat16, 128>(cudaStream_t stream, const Params& params,
                                                 bool dropout);

}  // namespace weft::cuda::attention
