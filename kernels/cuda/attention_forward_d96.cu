// Attention forward for head size 96.
#include "kernels/cuda/attention_forward.cuh"

namespace weft::cuda::attention {

template <>
void forward_mma<96>(cudaStream_t stream, const Params& params, bool dropout) {
  using Shape = ForwardShape<96, 2, 4, 64, 2>;
  if (dropout) {
    launch_forward<Shape, true>(stream, params);
  } else {
    launch_forward<Shape, false>(stream, params);
  }
}

}  // namespace weft::cuda::attention
