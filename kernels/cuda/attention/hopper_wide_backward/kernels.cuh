// Attention backward on Hopper for tiles of 160 columns: the two kernels of mma_sync/backward.cuh
// with TMA copies and wgmma, because the sums of dK and dV leave no registers for dQ. The query
// kernel runs first. It also forms delta and the scaled lse, which the key kernel reads. All
// probabilities and score gradients stay in registers: scores are computed with the owned side as
// rows, which makes them the left operand of the product that sums over the streamed side. A
// warpgroup queues the two score products of a step behind the previous step's sums; its
// elementwise work overlaps with the products of the other warpgroups.
#pragma once

#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/hopper_wide_backward/key.cuh"
#include "kernels/cuda/attention/hopper_wide_backward/query.cuh"
#include "kernels/cuda/hopper/tensor_map.h"

namespace weft::cuda::attention {

template <class Shape, bool kDropout>
void launch_wide_part(cudaStream_t stream, const Params& p, void (*kernel)(Params, WideMaps),
                      const WideMaps& maps, const char* name) {
  constexpr int kSharedBytes = Shape::shared_bytes(kDropout);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kSharedBytes, name);
  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  kernel<<<num_tiles * p.B * p.H, Shape::kThreads, kSharedBytes, stream>>>(p, maps);
  check_launch(name);
}

// Only where uses_hopper_kernels().
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
void launch_wide_backward(cudaStream_t stream, const Params& p) {
  const auto query_kernel =
      attention_backward_query_hopper_kernel<Shape, kDropout, kDocuments, kAlibi>;
  const auto key_kernel = attention_backward_key_hopper_kernel<Shape, kDropout, kDocuments, kAlibi>;
  const WideMaps maps = {tensor_map(p.q, Shape::D), tensor_map(p.k, Shape::D),
                         tensor_map(p.v, Shape::D), tensor_map(vectors_of(p, p.dout), Shape::D)};
  launch_wide_part<Shape, kDropout>(stream, p, query_kernel, maps,
                                    "attention_backward_query_hopper_kernel");
  launch_wide_part<Shape, kDropout>(stream, p, key_kernel, maps,
                                    "attention_backward_key_hopper_kernel");
}

}  // namespace weft::cuda::attention
