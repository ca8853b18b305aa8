// Shared memory of backward on Hopper: the tiles that its warps hand to each other, and the
// barriers with which they do it.
//
//   loading warp -> own tiles (K, V), stages (Q, dO, lse2, delta, dropout's bits) -> warpgroups
//   warpgroups -> scores' gradients -> warpgroups -> sums of dQ, or dQ -> adding threads -> memory
#pragma once

#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/backward_workspace/semaphores.cuh"
#include "kernels/cuda/hopper/async_copies.cuh"
#include "kernels/cuda/hopper/panel_tile.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"

namespace weft::cuda::attention {

// Two warpgroups own 64 keys each. A step has 64 queries. What warps hand on lies several times in
// memory, so that the next can arrive or be written early: kStages times queries, kOwn times the
// own tiles of a work tile, kScores times the gradients of a step's scores, and kSums times its
// sums of dQ.
template <typename ElementType, int kHeadSize, int kNumStages, int kNumOwn, int kNumScores,
          int kNumSums>
struct FusedShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kGroups = 2;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kStep = 64;
  static constexpr int kStages = kNumStages, kOwn = kNumOwn, kScores = kNumScores;
  static constexpr int kSums = kNumSums;
  static constexpr int kTileBytes = 64 * D * 2;
  static constexpr int kScoreBytes = kGroups * 64 * 64 * 2;
  static constexpr int kSumBytes = 64 * D * 4;
  static constexpr int kBiasBytes = D * 4;
  static constexpr int kMaskBytes = kGroups * kMaskTileBytes;
  static constexpr int shared_bytes(bool dropout) {
    return kSharedAlignment + kOwn * kGroups * 2 * kTileBytes + kScores * kScoreBytes +
           kSums * kSumBytes + kBiasBytes +
           kStages * (2 * kTileBytes + 2 * kStep * 4 + (dropout ? kMaskBytes : 0));
  }
  static_assert(kTileKeys == 64 * kGroups && kMaskTile == 64 && kSemaphoreQueries == kStep);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Shape, bool kDropout>
struct BackwardMemory {
  static constexpr int D = Shape::D;
  using Own = Buffers<Shape::kOwn>;
  using Stages = Buffers<Shape::kStages>;
  using Sums = Buffers<Shape::kSums>;
  static constexpr int kNumWords = Own::kNumWords + Stages::kNumWords + Sums::kNumWords;

  uint32_t base, barriers;
  WorkTile* work_tiles;  // one for each buffer of own tiles

  // --- the own tiles of work tile number `i` of this block ---
  __device__ Own own() const { return {barriers}; }
  __device__ WorkTile& work_tile(int i) const { return work_tiles[Own::index(i)]; }
  __device__ PanelTile<D, 64> k_tile(int i, int group) const {
    const int tile = (Own::index(i) * Shape::kGroups + group) * 2;
    return {base + tile * Shape::kTileBytes};
  }
  __device__ PanelTile<D, 64> v_tile(int i, int group) const {
    return {k_tile(i, group).base + Shape::kTileBytes};
  }

  // --- a step's queries ---
  __device__ Stages stages() const { return {own().end()}; }
  __device__ PanelTile<D, 64> q_tile(int step) const {
    return {stage_base() + Stages::index(step) * 2 * Shape::kTileBytes};
  }
  __device__ PanelTile<D, 64> dout_tile(int step) const {
    return {q_tile(step).base + Shape::kTileBytes};
  }
  __device__ uint32_t rows(int step) const {  // lse2 of the step's queries, then delta
    return rows_base() + Stages::index(step) * 2 * Shape::kStep * 4;
  }
  __device__ uint32_t mask(int step, int group) const {
    return rows_base() + Shape::kStages * 2 * Shape::kStep * 4 +
           Stages::index(step) * Shape::kMaskBytes + group * kMaskTileBytes;
  }

  // --- the gradients of the scores of a step: a group's 64 keys as rows, 64 queries as columns ---
  __device__ PanelTile<64, 64> score_tile(int step, int group) const {
    const int tile = static_cast<uint32_t>(step) % Shape::kScores * Shape::kGroups + group;
    return {base + Shape::kOwn * Shape::kGroups * 2 * Shape::kTileBytes + tile * (64 * 64 * 2)};
  }

  // --- the sums of dQ of a step, as a warpgroup's threads hold them ---
  __device__ uint32_t sums(int step) const {
    return score_tile(0, 0).base + Shape::kScores * Shape::kScoreBytes +
           Sums::index(step) * Shape::kSumBytes;
  }
  // Returns the place, in 16 bytes, of the four numbers of thread `thread` in columns [8 n, 8 n +
  // 8).
  __device__ static int sums_place(int n, int thread) { return n * 128 + thread; }
  // Uses of a buffer may come from both groups in turn. A wait for a use does not return for the
  // one before, because a group forms dQ of a step after the other one has handed over its sums of
  // all steps before (ScoreExchange).
  __device__ Sums sums_barriers() const { return {stages().end()}; }
  // --- dQ of a step, in the place of its sums: 64 queries as rows ---
  __device__ PanelTile<D, 64> dq_tile(int step) const { return {sums(step)}; }

  // --- sums of the columns of a work tile's dQ ---
  __device__ uint32_t bias() const {
    return rows_base() + Shape::kStages * 2 * Shape::kStep * 4 +
           (kDropout ? Shape::kStages * Shape::kMaskBytes : 0);
  }

  __device__ uint32_t stage_base() const { return sums(0) + Shape::kSums * Shape::kSumBytes; }
  __device__ uint32_t rows_base() const {
    return stage_base() + Shape::kStages * 2 * Shape::kTileBytes;
  }

  // One thread initialises the barriers. Every warp of the warpgroups, both adding threads and the
  // warp that sums columns of dQ read the work tile.
  __device__ void init_barriers(bool sums_columns) const {
    constexpr int kWarps = 4 * Shape::kGroups;
    own().init(1, kWarps + Shape::kGroups + sums_columns);
    stages().init(1, kWarps);
    sums_barriers().init(4, 1 + sums_columns);
    fence_initialised_barriers();
  }
};

// Barriers of the two warpgroups.
__device__ inline void arrive_at(int id) {
  asm volatile("bar.arrive %0, 256;" ::"r"(id) : "memory");
}
__device__ inline void sync_at(int id) { asm volatile("bar.sync %0, 256;" ::"r"(id) : "memory"); }

// The steps of a work tile: those of the queries that see any of its keys.
template <class Shape, bool kDocuments>
struct Steps {
  int begin, end;

  __device__ Steps(const Params& p, WorkTile work) {
    const int last_key = (work.tile + 1) * kTileKeys - 1;
    const int end_of_queries = kDocuments ? end_of_queries_of(p, work.bh / p.H, last_key) : p.T;
    begin = work.tile * kTileKeys / Shape::kStep;
    end = (end_of_queries + Shape::kStep - 1) / Shape::kStep;
  }
};

// Tells whether a work tile is the last one to add to dQ of a block, and whether it is the only
// one.
template <class Shape, bool kDocuments>
struct LastTile {
  bool is_last, is_only;

  __device__ LastTile(const Params& p, WorkTile work, int block) {
    const int first_tile =
        kDocuments ? first_key_of(p, work.bh / p.H, block * kSemaphoreQueries) / kTileKeys : 0;
    is_last = work.tile == first_tile;
    is_only = is_last && work.tile == block * kSemaphoreQueries / kTileKeys;
  }
};

#endif  // sm_90a

}  // namespace weft::cuda::attention
