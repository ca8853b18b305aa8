// Attention backward on Hopper in one kernel with five products: a block owns 128 keys, sums their
// dK and dV over the queries that stream through it, and adds its part of dQ to sums in memory, in
// a fixed order (backward_workspace/semaphores.cuh). Its blocks stay on their multiprocessors and
// take one work tile after the other, so that the next one's tiles arrive while the last ones of
// this one are multiplied.
//
// Two warpgroups multiply (products.cuh); the third one's warps copy tiles and bring dQ to memory
// (dq_sums.cuh), which needs few registers.
#pragma once

#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/backward_workspace/row_values.h"
#include "kernels/cuda/attention/hopper_backward/dq_columns.cuh"
#include "kernels/cuda/attention/hopper_backward/dq_sums.cuh"
#include "kernels/cuda/attention/hopper_backward/loads.cuh"
#include "kernels/cuda/attention/hopper_backward/products.cuh"
#include "kernels/cuda/hopper/tensor_map.h"

namespace weft::cuda::attention {

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attention_backward_hopper_kernel(const __grid_constant__ Params p,
                                     const __grid_constant__ CUtensorMap q_map,
                                     const __grid_constant__ CUtensorMap k_map,
                                     const __grid_constant__ CUtensorMap v_map,
                                     const __grid_constant__ CUtensorMap dout_map,
                                     const __grid_constant__ CUtensorMap dq_map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Memory = BackwardMemory<Shape, kDropout>;
  __shared__ __align__(8) uint64_t barriers[Memory::kNumWords];
  __shared__ WorkTile work_tiles[Shape::kOwn];
  extern __shared__ uint8_t shared[];
  const Memory memory{aligned_shared(shared), shared_address(barriers), work_tiles};
  if (threadIdx.x == 0) memory.init_barriers(p.bias.of_queries != nullptr);
  __syncthreads();
  const int group = warpgroup_index();
  // The warpgroups that multiply take registers from the third one.
  if (group < Shape::kGroups) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    multiply_tiles<Shape, kDropout, kDocuments, kAlibi>(p, memory, group);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32 % 4);
    if (warp < Shape::kGroups) {
      if ((threadIdx.x & 31) == 0)
        add_query_gradients<Shape, kDropout, kDocuments>(p, memory, warp, dq_map);
    } else if (warp == Shape::kGroups) {
      if ((threadIdx.x & 31) == 0)
        load_tiles<Shape, kDropout, kDocuments>(p, memory, q_map, k_map, v_map, dout_map);
    } else if (p.bias.of_queries != nullptr) {
      sum_query_gradients<Shape, kDropout, kDocuments>(p, memory);
    }
  }
#endif
}

// Only where uses_hopper_kernels().
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
void launch_fused_backward(cudaStream_t stream, const Params& p) {
  const auto kernel = attention_backward_hopper_kernel<Shape, kDropout, kDocuments, kAlibi>;
  const void* function = reinterpret_cast<const void*>(kernel);
  static const int num_multiprocessors = multiprocessors();
  constexpr int kSharedBytes = Shape::shared_bytes(kDropout);
  constexpr const char* kName = "attention_backward_hopper_kernel";
  allow_shared_memory(function, kSharedBytes, kName);
  constexpr bool kFp16 = kIsFp16<typename Shape::Element>;
  backward_rows(stream, p, kFp16 ? DType::kFloat16 : DType::kBFloat16);
  const int num_work_tiles = (p.T + kTileKeys - 1) / kTileKeys * p.B * p.H;
  kernel<<<std::min(num_work_tiles, num_multiprocessors), Shape::kThreads, kSharedBytes, stream>>>(
      p, tensor_map(p.q, Shape::D), tensor_map(p.k, Shape::D), tensor_map(p.v, Shape::D),
      tensor_map(vectors_of(p, p.dout), Shape::D), tensor_map(p.dq, Shape::D));
  check_launch(kName);
}

}  // namespace weft::cuda::attention
