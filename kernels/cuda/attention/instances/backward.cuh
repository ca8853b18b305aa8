// The choice of backward's kernels: on Hopper the one of hopper_backward/ for tiles of up to 128
// columns and those of hopper_wide_backward/ for wider ones, elsewhere those of mma_sync/.
#pragma once

#include "kernels/cuda/attention/hopper_backward/kernel.cuh"
#include "kernels/cuda/attention/hopper_wide_backward/kernels.cuh"
#include "kernels/cuda/attention/instances/instances.h"
#include "kernels/cuda/attention/mma_sync/backward.cuh"

namespace weft::cuda::attention {

// The kernels' shapes for each tile. Those of mma.sync that fit in 99 KiB run where a block has no
// more.
template <typename Element, int D>
struct BackwardShapes;
template <typename Element>
struct BackwardShapes<Element, 64> {
  using Fused = FusedShape<Element, 64, 3, 2, 2, 4>;
  using Query = BackwardShape<Element, 64, 2, 4, 32, 2>;
  using Key = Query;
  using SmallQuery = Query;
  using SmallKey = Key;
};
template <typename Element>
struct BackwardShapes<Element, 96> {
  using Fused = FusedShape<Element, 96, 3, 1, 1, 3>;
  using Query = BackwardShape<Element, 96, 2, 4, 32, 2>;
  using Key = BackwardShape<Element, 96, 1, 8, 64, 1>;
  using SmallQuery = Query;
  using SmallKey = Key;
};
template <typename Element>
struct BackwardShapes<Element, 128> {
  using Fused = FusedShape<Element, 128, 2, 1, 1, 2>;
  using Query = BackwardShape<Element, 128, 1, 8, 64, 1>;
  using Key = Query;
  using SmallQuery = BackwardShape<Element, 128, 1, 8, 32, 1>;
  using SmallKey = SmallQuery;
};
template <typename Element>
struct BackwardShapes<Element, 160> {
  using Wide = WideShape<Element>;
  using Query = BackwardShape<Element, 160, 1, 4, 32, 2>;
  using Key = Query;
  using SmallQuery = Query;
  using SmallKey = Query;
};

template <typename Element, int D, bool kPadded>
bool backward_16bit(cudaStream_t stream, const Params& params, bool dropout) {
  using Shapes = BackwardShapes<Element, D>;
  constexpr bool kFused = D <= 128;
  using Query = PaddedIf<typename Shapes::Query, kPadded>;
  using Key = PaddedIf<typename Shapes::Key, kPadded>;
  using SmallQuery = PaddedIf<typename Shapes::SmallQuery, kPadded>;
  using SmallKey = PaddedIf<typename Shapes::SmallKey, kPadded>;
  const bool on_hopper = uses_hopper_kernels();
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    if (on_hopper) {
      if constexpr (kFused) {
        using Fused = PaddedIf<typename Shapes::Fused, kPadded>;
        launch_fused_backward<Fused, drops(), documents(), alibi()>(stream, params);
      } else {
        using Wide = PaddedIf<typename Shapes::Wide, kPadded>;
        launch_wide_backward<Wide, drops(), documents(), alibi()>(stream, params);
      }
      return;
    }
    const void* kernel = reinterpret_cast<const void*>(
        attention_backward_key_kernel<Key, drops(), documents(), alibi()>);
    Params without_sums = params;
    without_sums.bias = {};
    if (fits_shared_memory(kernel, Key::kSharedBytes)) {
      launch_backward<Query, Key, drops(), documents(), alibi()>(stream, without_sums);
    } else {
      launch_backward<SmallQuery, SmallKey, drops(), documents(), alibi()>(stream, without_sums);
    }
  });
  return on_hopper && kFused && params.bias.of_queries != nullptr;
}

}  // namespace weft::cuda::attention
