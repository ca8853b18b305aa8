// Attention forward for head size 64.
#include "kernels/cuda/attention/hopper_forward.cuh"

namespace weft::cuda::attention {
namespace {

template <bool kDropout, bool kDocuments, bool kAlibi>
void run(cudaStream_t stream, const Params& params) {
  using Hopper = HopperShape<64, 2, 64, 4, 2>;
  using Shape = ForwardShape<64, 2, 4, 64, 2>;
  if (!launch_forward_hopper<Hopper, kDropout, kDocuments, kAlibi>(stream, params)) {
    launch_forward<Shape, kDropout, kDocuments, kAlibi>(stream, params);
  }
}

}  // namespace

template <>
void forward_bf16<64>(cudaStream_t stream, const Params& params, bool dropout) {
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    run<drops(), documents(), alibi()>(stream, params);
  });
}

}  // namespace weft::cuda::attention
