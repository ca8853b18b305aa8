// Attention backward for head size 64.
#include "kernels/cuda/attention_backward.cuh"

namespace weft::cuda::attention {

template <>
void backward_mma<64>(cudaStream_t stream, const Params& params, bool dropout) {
  using QueryShape = BackwardShape<64, 2, 4, 32, 2>;
  using KeyShape = BackwardShape<64, 2, 4, 32, 2>;
  if (dropout) {
    launch_backward<QueryShape, KeyShape, true>(stream, params);
  } else {
    launch_backward<QueryShape, KeyShape, false>(stream, params);
  }
}

}  // namespace weft::cuda::attention
