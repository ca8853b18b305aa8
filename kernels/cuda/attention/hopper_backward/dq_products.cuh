// The product dQ = dS K of backward on Hopper. It needs the gradients of both warpgroups' scores
// with queries as rows, so they go through shared memory, and the groups take turns in forming dQ
// of a block of 64 queries.
#pragma once

#include "kernels/cuda/attention/hopper_backward/memory.cuh"
#include "kernels/cuda/device/shared_tile.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The numbers of the barriers between the groups, by the group that forms dQ of the step. (0 is
// that of __syncthreads, 1 and 2 are those of sync_warpgroup.)
constexpr int kScoresFull = 3, kScoresEmpty = 5;

// Writes a warp's 16 rows of a left operand with 64 columns.
__device__ inline void store_operand(Tile<64> tile, int row, const uint32_t (&a)[4][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    store_matrices(tile.at(row + (lane & 15), 2 * k + (lane >> 4)), a[k]);
  }
}

// Acquires the semaphore for a work tile that is the last one to add to a block of queries. A warp
// calls it. Returns the sums of the others.
template <int D>
__device__ inline const float* wait_for_sums(const Params& p, const WorkTile& work, int block) {
  if ((threadIdx.x & 31) == 0) Semaphores(p, work).acquire(block);
  __syncwarp();
  return sums_of<D>(p, work, block);
}

// The two groups hand the gradients of a step's scores to each other, and one of them reads both to
// form dQ.
template <class Shape, bool kDropout>
struct ScoreExchange {
  const BackwardMemory<Shape, kDropout>& memory;
  int group;

  __device__ bool forms_dq(int step) const { return step % 2 == group; }
  // Writes this warp's 16 keys, when the other group no longer reads what lies there. (This group
  // itself does not: each warp has waited for its products, and all have met since.) The group that
  // forms dQ waits for them later.
  __device__ void store(int step, int warp_row, const uint32_t (&gradients)[4][4]) const {
    const int reader = (step + Shape::kScores) % 2;  // the group that read what lies there
    if (step >= Shape::kScores && reader != group) sync_at(kScoresEmpty + reader);
    store_operand(Tile<64>{memory.score_tile(step, group).base}, warp_row, gradients);
    fence_shared_async();
    if (!forms_dq(step)) arrive_at(kScoresFull + step % 2);
  }
  // Forms dQ of the step's queries, of both groups' keys, and hands it to the thread that brings it
  // to memory. Returns when all products of this thread are complete. `i` is the number of the work
  // tile. Where it is the last one to add, dQ is complete: the sums of the others, if there are
  // any, lie at `before`.
  __device__ void form_dq(const Params& p, int i, int step, bool is_complete,
                          const float* before) const {
    using Element = typename Shape::Element;
    constexpr int D = Shape::D;
    constexpr int kColumns = D > 96 ? 64 : D;  // Registers hold the sums of so many.
    const int thread = threadIdx.x % 128;
    sync_at(kScoresFull + group);
#pragma unroll
    for (int part = 0; part < D / kColumns; ++part) {
      constexpr int kN = kColumns / 8;
      float dq[kN][4];
      wgmma_fence();
#pragma unroll
      for (int of_group = 0; of_group < Shape::kGroups; ++of_group) {
        const PanelTile<kColumns, 64> keys{memory.k_tile(i, of_group).base +
                                           part * PanelTile<kColumns, 64>::kBytes};
        start_transposed_product<Element, kColumns>(dq, memory.score_tile(step, of_group), keys,
                                                    of_group > 0);
      }
      wgmma_wait<0>();
      pin(dq);
      if (part == D / kColumns - 1) arrive_at(kScoresEmpty + group);
      if (before != nullptr) {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          const float4 sum = __ldcg(reinterpret_cast<const float4*>(before) +
                                    memory.sums_place(part * kN + n, thread));
          dq[n][0] += sum.x;
          dq[n][1] += sum.y;
          dq[n][2] += sum.z;
          dq[n][3] += sum.w;
        }
      }
      if (part == 0) memory.sums_barriers().wait_empty(step);
      if (is_complete) {
        put_complete(p, step, part * kN / 2, dq);
      } else {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          store_quad(memory.sums(step) + memory.sums_place(part * kN + n, thread) * 16, dq[n]);
        }
      }
    }
    memory.sums_barriers().fill_by_warp(step);
  }
  // Puts columns of dQ where its sums would lie; the first is 16 * first.
  template <int kN>
  __device__ void put_complete(const Params& p, int step, int first, float (&dq)[kN][4]) const {
    uint32_t words[kN / 2][4];
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        words[n / 2][n % 2 * 2 + half] =
            pack<typename Shape::Element>(dq[n][2 * half] * p.scale, dq[n][2 * half + 1] * p.scale);
      }
    }
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 % 4 * 16 + (lane & 15);
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) {
      store_matrices(memory.dq_tile(step).at(row, 2 * (first + k) + (lane >> 4)), words[k]);
    }
  }
};

#endif  // sm_90a

}  // namespace weft::cuda::attention
