// Shared memory of forward on Hopper: the tiles that its warps hand to each other, and the barriers
// with which they do it.
//
//   loading warp -> work tiles, stages (K, V, dropout's bits) -> warpgroups
//   loading warp -> tiles of queries -> warpgroups -> results in the same tiles -> storing warp ->
//   memory
#pragma once

#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/hopper/async_copies.cuh"
#include "kernels/cuda/hopper/panel_tile.cuh"

namespace weft::cuda::attention {

// kGroups warpgroups multiply, each with 64 queries and kRegisters registers a thread. A step has
// 64 keys.
template <typename ElementType, int kHeadSize, int kNumGroups, int kNumRegisters, int kNumStages,
          int kNumQueryTiles>
struct ForwardHopperShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kGroups = kNumGroups;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kQueries = 64 * kGroups;  // a work tile's queries
  static constexpr int kStep = 64;
  static constexpr int kStages = kNumStages, kQueryTiles = kNumQueryTiles;
  static constexpr int kRegisters = kNumRegisters;
  static constexpr int kOtherRegisters = 32;  // for each thread that does not multiply
  static constexpr int kWorkTiles = 2;
  static constexpr int kTileBytes = 64 * D * 2;
  static constexpr int kMaskBytes = kGroups * kMaskTileBytes;
  // the barriers of ForwardMemory's buffers, then those of the results
  static constexpr int kNumWords =
      words_of_buffers(kWorkTiles + kStages + kQueryTiles) + kQueryTiles;
  static constexpr int shared_bytes(bool dropout) {
    return kSharedAlignment + kQueryTiles * kTileBytes +
           kStages * (2 * kTileBytes + (dropout ? kMaskBytes : 0)) + 8 * kNumWords;
  }
  static_assert(kStep == kMaskTile);
  // A block begins with equal registers for all threads, as ptxas rounds them. Warpgroups that take
  // more than the copying one leaves would wait for ever.
  static constexpr int kFirstRegisters = 65536 / kThreads / 8 * 8;
  static_assert(kGroups * kRegisters + kOtherRegisters <= (kGroups + 1) * kFirstRegisters);
  // With fewer tiles a warpgroup could wait for the tile of another one that waits for its keys.
  static_assert(kQueryTiles >= kGroups);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A work tile is what a block works on at a time: queries of one head, from the one at position
// first_query on, and its keys in tiles from first_step on.
struct ForwardTile {
  int bh;  // -1 behind the last work tile
  int b, first_query, first_step;
};

template <class Shape, bool kDropout>
struct ForwardMemory {
  static constexpr int D = Shape::D;
  using WorkTiles = Buffers<Shape::kWorkTiles>;
  using Stages = Buffers<Shape::kStages>;
  using Queries = Buffers<Shape::kQueryTiles>;

  uint32_t base;
  ForwardTile* tile_slots;

  __device__ ForwardTile& work_tile(int i) const { return tile_slots[WorkTiles::index(i)]; }
  // Tiles of queries are counted through all work tiles.
  __device__ PanelTile<D, 64> q_tile(int use) const {
    return {base + Queries::index(use) * Shape::kTileBytes};
  }
  __device__ PanelTile<D, 64> k_tile(int step) const {
    return {base + (Shape::kQueryTiles + 2 * Stages::index(step)) * Shape::kTileBytes};
  }
  __device__ PanelTile<D, 64> v_tile(int step) const {
    return {k_tile(step).base + Shape::kTileBytes};
  }
  __device__ uint32_t mask(int step, int row) const {
    return mask_base() + Stages::index(step) * Shape::kMaskBytes + row * kMaskTileBytes;
  }

  __device__ WorkTiles work_tiles() const { return {barrier_base()}; }
  __device__ Stages stages() const { return {work_tiles().end()}; }
  __device__ Queries queries() const { return {stages().end()}; }
  // The barrier of the results that take the place of a tile of queries.
  __device__ uint32_t results_full(int use) const {
    return queries().end() + 8 * Queries::index(use);
  }

  __device__ uint32_t mask_base() const {
    return base + (Shape::kQueryTiles + 2 * Shape::kStages) * Shape::kTileBytes;
  }
  __device__ uint32_t barrier_base() const {
    return mask_base() + (kDropout ? Shape::kStages * Shape::kMaskBytes : 0);
  }

  // One thread initialises the barriers. All warps that multiply read the work tiles, as do the one
  // that loads queries and the one that stores results. The latter empties tiles of queries.
  __device__ void init_barriers() const {
    constexpr int kWarps = 4 * Shape::kGroups;
    work_tiles().init(1, kWarps + 2);
    stages().init(1, kWarps);
    queries().init(1, 1);
    for (int use = 0; use < Shape::kQueryTiles; ++use) init_barrier(results_full(use), 4);
    fence_initialised_barriers();
  }
};

// Returns which row (64 queries) of work tile number `i` a warpgroup has. The warpgroups have an
// odd work tile's rows in reverse order, so that all have as much to do.
template <class Shape>
__device__ inline int row_of_group(int i, int group) {
  return i % 2 == 0 ? group : Shape::kGroups - 1 - group;
}
// Returns the number of a warpgroup's tile of queries.
template <class Shape>
__device__ inline int query_use(int i, int group) {
  return i * Shape::kGroups + group;
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
