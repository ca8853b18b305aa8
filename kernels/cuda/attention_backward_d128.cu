// Attention backward for head size 128.
#include "kernels/cuda/attention_backward.cuh"

namespace weft::cuda::attention {

template <>
void backward_mma<128>(cudaStream_t stream, const Params& params, bool dropout) {
  using QueryShape = BackwardShape<128, 1, 8, 64, 1>;
  using KeyShape = BackwardShape<128, 1, 8, 64, 1>;
  if (dropout) {
    launch_backward<QueryShape, KeyShape, true>(stream, params);
  } else {
    launch_backward<QueryShape, KeyShape, false>(stream, params);
  }
}

}  // namespace weft::cuda::attention
