// Attention forward on Hopper: the algorithm of mma_sync/forward.cuh with TMA copies and wgmma.
//
// Blocks stay on their multiprocessors and take one work tile after the other: 64 queries for each
// of their warpgroups that multiply (products.cuh). The warps of one more warpgroup copy
// (copies.cuh): the next work tile's tiles arrive while this one's last products run, and results
// leave while the next ones are computed.
#pragma once

#include <algorithm>

#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/hopper_forward/copies.cuh"
#include "kernels/cuda/attention/hopper_forward/products.cuh"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/hopper/warpgroup.cuh"

namespace weft::cuda::attention {

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attention_forward_hopper_kernel(const __grid_constant__ Params p,
                                    const __grid_constant__ CUtensorMap q_map,
                                    const __grid_constant__ CUtensorMap k_map,
                                    const __grid_constant__ CUtensorMap v_map,
                                    const __grid_constant__ CUtensorMap out_map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ ForwardTile work_tiles[Shape::kWorkTiles];
  extern __shared__ uint8_t shared[];
  const ForwardMemory<Shape, kDropout> memory{aligned_shared(shared), work_tiles};
  if (threadIdx.x == 0) memory.init_barriers();
  __syncthreads();
  const int group = warpgroup_index();
  // The warpgroups that multiply take registers from the last one.
  if (group < Shape::kGroups) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Shape::kRegisters));
    attend<Shape, kDropout, kDocuments, kAlibi>(p, memory, group);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Shape::kOtherRegisters));
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32 % 4);
    if ((threadIdx.x & 31) != 0) return;
    if (warp == 0) load_keys<Shape, kDropout, kDocuments>(p, memory, k_map, v_map);
    if (warp == 1) load_queries(p, memory, q_map);
    if (warp == 2) store_results(p, memory, out_map);
  }
#endif
}

// Only where uses_hopper_kernels().
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
void launch_forward_hopper(cudaStream_t stream, const Params& p) {
  const auto kernel = attention_forward_hopper_kernel<Shape, kDropout, kDocuments, kAlibi>;
  const void* function = reinterpret_cast<const void*>(kernel);
  static const int num_multiprocessors = multiprocessors();
  constexpr int kSharedBytes = Shape::shared_bytes(kDropout);
  constexpr const char* kName = "attention_forward_hopper_kernel";
  allow_shared_memory(function, kSharedBytes, kName);
  const int num_blocks = std::min(ForwardScheduler<Shape>(p).num_work_tiles, num_multiprocessors);
  kernel<<<num_blocks, Shape::kThreads, kSharedBytes, stream>>>(
      p, tensor_map(p.q, Shape::D), tensor_map(p.k, Shape::D), tensor_map(p.v, Shape::D),
      tensor_map(vectors_of(p, p.out), Shape::D));
  check_launch(kName);
}

}  // namespace weft::cuda::attention
