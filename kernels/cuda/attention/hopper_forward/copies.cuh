// The warps of forward on Hopper that copy: one draws work tiles and loads their keys and values,
// one loads queries, one stores results. They run ahead of the warpgroups that multiply, as far as
// buffers are free.
#pragma once

#include "kernels/cuda/attention/hopper_forward/memory.cuh"

namespace weft::cuda::attention {

// The tile scheduler. Blocks draw work tiles from a counter in device memory, so those that begin
// late, because other kernels hold their multiprocessors, leave work tiles to the others; no block
// waits for another one. Each block draws once more than it gets work tiles: after the last draw of
// all the counter is 0 again.
template <class Shape>
struct ForwardScheduler {
  int num_tiles, num_work_tiles;

  WEFT_HOST_DEVICE explicit ForwardScheduler(const Params& p)
      : num_tiles((p.T + Shape::kQueries - 1) / Shape::kQueries),
        num_work_tiles(num_tiles * p.B * p.H) {}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ int draw(const Params& p) const {
    return static_cast<int>(atomicInc(p.tile_counter, num_work_tiles + gridDim.x - 1));
  }
  // Tiles are numbered by falling work.
  template <bool kDocuments>
  __device__ ForwardTile at(const Params& p, int drawn) const {
    if (drawn >= num_work_tiles) return {-1, 0, 0, 0};
    const BlockPlace place = block_order(p, num_tiles, drawn);
    const int b = place.bh / p.H;
    const int first_query = p.first_query + (num_tiles - 1 - place.tile) * Shape::kQueries;
    // Steps begin with the first tile of keys that any of the work tile's queries sees.
    const int first_step = kDocuments ? first_key_of(p, b, first_query) / Shape::kStep : 0;
    return {place.bh, b, first_query, first_step};
  }
#endif
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Returns the end of the steps of a work tile.
template <class Shape>
__device__ inline int end_of_steps(const Params& p, const ForwardTile& work) {
  return (min(work.first_query + Shape::kQueries, p.end_of_queries) - 1) / Shape::kStep + 1;
}

// One thread draws work tiles, tells them to the other warps and loads their keys and values.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void load_keys(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                 const CUtensorMap& k_map, const CUtensorMap& v_map) {
  const ForwardScheduler<Shape> scheduler(p);
  int drawn = scheduler.draw(p), step = 0;
  for (int i = 0;; ++i) {
    const ForwardTile work = scheduler.template at<kDocuments>(p, drawn);
    memory.work_tiles().wait_empty(i);
    memory.work_tile(i) = work;
    arrive(memory.work_tiles().full(i));
    if (work.bh < 0) return;
    drawn = scheduler.draw(p);
    const int row_of_keys = p.k_rows.of(key_head_of(p, work.bh - work.b * p.H), 0);
    const int end = end_of_steps<Shape>(p, work);
    for (int tile = work.first_step; tile < end; ++tile, ++step) {
      memory.stages().wait_empty(step);
      const uint32_t full = memory.stages().full(step);
      expect_bytes(full, 2 * Shape::kTileBytes + (kDropout ? Shape::kMaskBytes : 0));
      memory.k_tile(step).load(k_map, row_of_keys, tile * Shape::kStep, work.b, full);
      memory.v_tile(step).load(v_map, row_of_keys, tile * Shape::kStep, work.b, full);
      // Unrolled, the addresses would spill.
#pragma unroll 1
      for (int row = 0; kDropout && row < Shape::kGroups; ++row) {
        load_bytes(memory.mask(step, row),
                   mask_tile(p, work.bh, work.first_query / kMaskTile + row, tile), kMaskTileBytes,
                   full);
      }
    }
  }
}

// Waits for work tile number `i` of this block and returns it to one thread.
template <class Shape, bool kDropout>
__device__ inline ForwardTile take_tile(const ForwardMemory<Shape, kDropout>& memory, int i) {
  memory.work_tiles().wait_full(i);
  const ForwardTile work = memory.work_tile(i);
  memory.work_tiles().empty_by_thread(i);
  return work;
}

// One thread loads queries.
template <class Shape, bool kDropout>
__device__ inline void load_queries(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                    const CUtensorMap& q_map) {
  for (int i = 0;; ++i) {
    const ForwardTile work = take_tile(memory, i);
    if (work.bh < 0) return;
    const int h = work.bh - work.b * p.H, row_of_head = p.q_rows.of(h, key_head_of(p, h));
    for (int group = 0; group < Shape::kGroups; ++group) {
      const int use = query_use<Shape>(i, group);
      const int query = work.first_query - p.first_query + 64 * row_of_group<Shape>(i, group);
      // A barrier's parity tells only two phases apart. Before the previous use of this tile is
      // full, a wait for the next use would return at once. Where that one is another warpgroup's,
      // tiles become full in the order of their uses: who has had its tile of the work tile before
      // knows that all earlier ones are full.
      if (Shape::kQueryTiles % Shape::kGroups != 0 && use > 0) memory.queries().wait_full(use - 1);
      memory.queries().wait_empty(use);
      const uint32_t full = memory.queries().full(use);
      expect_bytes(full, Shape::kTileBytes);
      memory.q_tile(use).load(q_map, row_of_head, query, work.b, full);
    }
  }
}

// One thread stores results and then hands their memory back to load_queries.
template <class Shape, bool kDropout>
__device__ inline void store_results(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                     const CUtensorMap& out_map) {
  for (int i = 0;; ++i) {
    const ForwardTile work = take_tile(memory, i);
    if (work.bh < 0) return;
    for (int group = 0; group < Shape::kGroups; ++group) {
      const int use = query_use<Shape>(i, group);
      const int query = work.first_query - p.first_query + 64 * row_of_group<Shape>(i, group);
      wait_barrier(memory.results_full(use), Buffers<Shape::kQueryTiles>::phase(use));
      if (query < p.T) {
        memory.q_tile(use).store(out_map, work.bh - work.b * p.H, query, work.b);
        commit_stores();
        wait_reads();
      }
      memory.queries().empty_by_thread(use);
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
