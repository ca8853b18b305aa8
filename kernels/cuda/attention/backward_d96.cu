// Attention backward for head size 96.
#include "kernels/cuda/attention/hopper_backward.cuh"

namespace weft::cuda::attention {
namespace {

template <bool kDropout, bool kDocuments, bool kAlibi>
void run(cudaStream_t stream, const Params& params) {
  using HopperQuery = HopperShape<96, 3, 64, 3, 1>;
  using HopperKey = HopperShape<96, 1, 64, 3, 2>;
  using QueryShape = BackwardShape<96, 2, 4, 32, 2>;
  using KeyShape = BackwardShape<96, 1, 8, 64, 1>;
  if (!launch_backward_hopper<HopperQuery, HopperKey, kDropout, kDocuments, kAlibi>(stream,
                                                                                    params)) {
    launch_backward<QueryShape, KeyShape, kDropout, kDocuments, kAlibi>(stream, params);
  }
}

}  // namespace

template <>
void backward_bf16<96>(cudaStream_t stream, const Params& params, bool dropout) {
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    run<drops(), documents(), alibi()>(stream, params);
  });
}

}  // namespace weft::cuda::attention
