// The sums of dQ over queries, for the gradient of a bias (backward_workspace/bias_sums.h).
#pragma once

#include "kernels/cuda/attention/hopper_backward/memory.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Adds 64 rows of dQ to the sums of its columns that lie at `bias`, or replaces these where `assigns`.
template <class Shape, class Memory>
__device__ inline void add_columns(uint32_t bias, uint32_t sums, bool assigns) {
  const int lane = threadIdx.x & 31;
  const bool takes_odd = lane & 16;
#pragma unroll 2
  for (int n = 0; n < Shape::D / 8; ++n) {
    float even = 0, odd = 0;
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      float v[4];
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                   : "r"(sums + Memory::sums_place(n, warp * 32 + lane) * 16)
                   : "memory");
      even += v[0] + v[2];
      odd += v[1] + v[3];
    }
    float sum = (takes_odd ? odd : even) + __shfl_xor_sync(0xFFFFFFFFu, takes_odd ? even : odd, 16);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 8);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 4);
    const uint32_t column = bias + (n * 8 + (lane & 3) * 2 + takes_odd) * 4;
    if ((lane & 12) == 0) store_float(column, assigns ? sum : load_float(column) + sum);
  }
}

// Sums the columns of dQ that an item finishes, beside the warps that write them. One warp does it, in the order of
// queries, so that equal calls give equal bits.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void sum_query_gradients(const Params& p,
                                           const BackwardMemory<Shape, kDropout>& memory) {
  const int lane = threadIdx.x & 31;
  const uint32_t bias = memory.bias();
  int count = 0;  // of blocks
  int num_read_back[2] = {};
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const int ticket = memory.item(i);
    __syncwarp();
    if (lane == 0) arrive(memory.own().empty(i));
    if (ticket < 0) return;
    const Item item = item_of(p, ticket);
    const Steps<Shape, kDocuments> steps(p, item);
    bool has_sums = false;
    for (int block = steps.begin; block < steps.end; ++block) {
      const int number = count++, group = number % Shape::kGroups;
      const LastTurn<Shape, kDocuments> last(p, item, block);
      // It takes part in every use of the sums, so that it cannot be two phases late there or at read_back.
      memory.sums_barriers().wait_full(number);
      if (last.is_last) {
        if (!last.is_only) {
          const int use = group == 0 ? num_read_back[0]++ : num_read_back[1]++;
          memory.read_back(group).wait_full(use);
        }
        __syncwarp();
        add_columns<Shape, BackwardMemory<Shape, kDropout>>(bias, memory.sums(number), !has_sums);
        has_sums = true;
        fence_shared_async();
      }
      __syncwarp();
      if (lane == 0) arrive(memory.sums_barriers().empty(number));
    }
    // Without documents, the first tile's item is the last one for all blocks.
    if (kDocuments || item.tile == 0) {
      float* row = p.bias.queries(item.bh / p.H, item.tile, p.H, item.bh % p.H);
#pragma unroll 1
      for (int column = lane; column < Shape::D; column += 32)
        row[column] = has_sums ? load_float(bias + column * 4) * p.scale : 0;
      __syncwarp();
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
