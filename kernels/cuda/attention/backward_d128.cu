// Attention backward for head size 128.
#include "kernels/cuda/attention/hopper_backward.cuh"

namespace weft::cuda::attention {
namespace {

template <bool kDropout>
void run(cudaStream_t stream, const Params& params) {
  using HopperQuery = HopperShape<128, 3, 64, 3, 1>;
  using HopperKey = HopperShape<128, 2, 64, 4, 1>;
  using QueryShape = BackwardShape<128, 1, 8, 64, 1>;
  using KeyShape = BackwardShape<128, 1, 8, 64, 1>;
  if (!launch_backward_hopper<HopperQuery, HopperKey, kDropout>(stream, params)) {
    launch_backward<QueryShape, KeyShape, kDropout>(stream, params);
  }
}

}  // namespace

template <>
void backward_bf16<128>(cudaStream_t stream, const Params& params, bool dropout) {
  dropout ? run<true>(stream, params) : run<false>(stream, params);
}

}  // namespace weft::cuda::attention
