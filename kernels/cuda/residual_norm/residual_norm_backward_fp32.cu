// The residual norm's backward kernels for streams of fp32.
#include "kernels/cuda/residual_norm/residual_norm_backward.cuh"

namespace weft::cuda {

template int launch_backward<float, float>(cudaStream_t stream, const BackwardArgs& args, bool rms,
                                           bool branch_bias);
template int launch_backward<float, bf16>(cudaStream_t stream, const BackwardArgs& args, bool rms,
                                          bool branch_bias);
template int launch_backward<float, fp16>(cudaStream_t stream, const BackwardArgs& args, bool rms,
                                          bool branch_bias);

}  // namespace weft::cuda
