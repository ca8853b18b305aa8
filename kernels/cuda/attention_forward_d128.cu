// Attention forward for head size 128.
#include "kernels/cuda/attention_forward.cuh"

namespace weft::cuda::attention {

template <>
void forward_mma<128>(cudaStream_t stream, const Params& params, bool dropout) {
  using Shape = ForwardShape<128, 2, 4, 32, 2>;
  if (dropout) {
    launch_forward<Shape, true>(stream, params);
  } else {
    launch_forward<Shape, false>(stream, params);
  }
}

}  // namespace weft::cuda::attention
