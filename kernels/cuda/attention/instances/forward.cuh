// The choice of forward's kernels: on Hopper those of hopper_forward/, elsewhere those of
// mma_sync/.
#pragma once

#include "kernels/cuda/attention/hopper_forward/kernel.cuh"
#include "kernels/cuda/attention/instances/instances.h"
#include "kernels/cuda/attention/mma_sync/forward.cuh"

namespace weft::cuda::attention {

// The kernels' shapes for each tile.
template <typename Element, int D>
struct ForwardShapes;
template <typename Element>
struct ForwardShapes<Element, 64> {
  using Hopper = ForwardHopperShape<Element, 64, 4, 112, 8, 8>;
  using MmaSync = ForwardShape<Element, 64, 2, 4, 64, 2>;
};
template <typename Element>
struct ForwardShapes<Element, 96> {
  using Hopper = ForwardHopperShape<Element, 96, 3, 160, 4, 6>;
  using MmaSync = ForwardShape<Element, 96, 2, 4, 64, 2>;
};
template <typename Element>
struct ForwardShapes<Element, 128> {
  using Hopper = ForwardHopperShape<Element, 128, 3, 160, 4, 4>;
  using MmaSync = ForwardShape<Element, 128, 2, 4, 32, 2>;
};
template <typename Element>
struct ForwardShapes<Element, 160> {
  using Hopper = ForwardHopperShape<Element, 160, 2, 232, 4, 3>;
  using MmaSync = ForwardShape<Element, 160, 1, 4, 32, 2>;
};

template <typename Element, int D, bool kPadded>
void forward_16bit(cudaStream_t stream, const Params& params, bool dropout) {
  using Shapes = ForwardShapes<Element, D>;
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    using Hopper = PaddedIf<typename Shapes::Hopper, kPadded>;
    using MmaSync = PaddedIf<typename Shapes::MmaSync, kPadded>;
    if (uses_hopper_kernels())
      launch_forward_hopper<Hopper, drops(), documents(), alibi()>(stream, params);
    else
      launch_forward<MmaSync, drops(), documents(), alibi()>(stream, params);
  });
}

}  // namespace weft::cuda::attention
