// The sums of dQ over queries, for the gradient of a bias (backward_workspace/bias_sums.h).
#pragma once

#include "kernels/cuda/attention/hopper_backward/memory.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Adds 64 rows of dQ to the sums of its columns that lie at `bias`, or replaces these where
// `assigns`. A lane has two neighbouring columns.
template <class Shape>
__device__ inline void add_columns(uint32_t bias, PanelTile<Shape::D, 64> dq, bool assigns) {
#pragma unroll 1
  for (int pair = threadIdx.x & 31; pair < Shape::D / 2; pair += 32) {
    float sums[2] = {};
#pragma unroll 8
    for (int row = 0; row < 64; ++row) {
      const float2 values =
          unpack<typename Shape::Element>(load_word(dq.at(row, pair / 4) + pair % 4 * 4));
      sums[0] += values.x;
      sums[1] += values.y;
    }
    const uint32_t column = bias + pair * 8;
    store_float(column, assigns ? sums[0] : load_float(column) + sums[0]);
    store_float(column + 4, assigns ? sums[1] : load_float(column + 4) + sums[1]);
  }
}

// Sums the columns of dQ that a work tile finishes, beside the threads that store them. One warp
// does it, in the order of queries, so that equal calls give equal bits.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void sum_query_gradients(const Params& p,
                                           const BackwardMemory<Shape, kDropout>& memory) {
  const int lane = threadIdx.x & 31;
  const uint32_t bias = memory.bias();
  int num_blocks = 0;
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const WorkTile work = memory.work_tile(i);
    memory.own().empty_by_warp(i);
    if (!work.exists()) return;
    const Steps<Shape, kDocuments> steps(p, work);
    bool has_sums = false;
    for (int block = steps.begin; block < steps.end; ++block) {
      const int number = num_blocks++;
      const LastTile<Shape, kDocuments> last(p, work, block);
      // It takes part in every use of the sums, so that it cannot be two phases late.
      memory.sums_barriers().wait_filled_by_warps(number);
      if (last.is_last) {
        add_columns<Shape>(bias, memory.dq_tile(number), !has_sums);
        has_sums = true;
      }
      memory.sums_barriers().empty_by_warp(number);
    }
    // Without documents, the first tile is the last one for all blocks.
    if (kDocuments || work.tile == 0) {
      float* row = p.bias.queries(work.bh / p.H, work.tile, p.H, work.bh % p.H);
#pragma unroll 1
      for (int column = lane; column < Shape::D; column += 32)
        row[column] = has_sums ? load_float(bias + column * 4) : 0;
      __syncwarp();
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
