// Attention backward for head size 128.
#include "kernels/cuda/attention/hopper_backward.cuh"

namespace weft::cuda::attention {
namespace {

template <bool kDropout, bool kDocuments, bool kAlibi>
void run(cudaStream_t stream, const Params& params) {
  using HopperQuery = HopperShape<128, 3, 64, 3, 1>;
  using HopperKey = HopperShape<128, 2, 64, 4, 1>;
  using Shape = BackwardShape<128, 1, 8, 64, 1>;
  using SmallShape = BackwardShape<128, 1, 8, 32, 1>;  // fits in 99 KiB
  if (launch_backward_hopper<HopperQuery, HopperKey, kDropout, kDocuments, kAlibi>(stream, params))
    return;
  const void* kernel = reinterpret_cast<const void*>(
      attention_backward_key_kernel<Shape, kDropout, kDocuments, kAlibi>);
  if (fits_shared_memory(kernel, Shape::kSharedBytes)) {
    launch_backward<Shape, Shape, kDropout, kDocuments, kAlibi>(stream, params);
  } else {
    launch_backward<SmallShape, SmallShape, kDropout, kDocuments, kAlibi>(stream, params);
  }
}

}  // namespace

template <>
void backward_bf16<128>(cudaStream_t stream, const Params& params, bool dropout) {
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    run<drops(), documents(), alibi()>(stream, params);
  });
}

}  // namespace weft::cuda::attention
