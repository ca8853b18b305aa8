// The residual norm's backward kernels for streams of bf16 and fp16.
#include "kernels/cuda/residual_norm/residual_norm_backward.cuh"

namespace weft::cuda {

template int launch_backward<bf16, bf16>(cudaStream_t stream, const BackwardArgs& args, bool rms,
                                         bool branch_bias);
template int launch_backward<fp16, fp16>(cudaStream_t stream, const BackwardArgs& args, bool rms,
                                         bool branch_bias);

}  // namespace weft::cuda
