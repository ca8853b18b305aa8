// The warps of forward on Hopper that copy: one draws items and loads their keys and values, one loads queries,
// one stores results. They run ahead of the warpgroups that multiply, as far as buffers are free.
#pragma once

#include "kernels/cuda/attention/hopper_forward/memory.cuh"

namespace weft::cuda::attention {

// The order of items. Blocks draw them from a counter in device memory, so those that begin late, because other kernels
// hold their multiprocessors, leave items to the others; no block waits for another one. Each block draws once more than it
// gets items: after the last draw of all the counter is 0 again.
template <class Shape>
struct ForwardItems {
  int num_tiles, num_items;

  WEFT_HOST_DEVICE explicit ForwardItems(const Params& p)
      : num_tiles((p.T + Shape::kQueries - 1) / Shape::kQueries),
        num_items(num_tiles * p.B * p.H) {}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ int draw(const Params& p) const {
    return static_cast<int>(atomicInc(p.item_counter, num_items + gridDim.x - 1));
  }
  // Tiles are numbered by falling work.
  template <bool kDocuments>
  __device__ ForwardItem at(const Params& p, int drawn) const {
    if (drawn >= num_items) return {-1, 0, 0, 0};
    const BlockPlace place = block_order(p, num_tiles, drawn);
    const int b = place.bh / p.H, first_query = (num_tiles - 1 - place.tile) * Shape::kQueries;
    // Steps begin with the first tile of keys that any of the item's queries sees.
    const int first_step = kDocuments ? first_key_of(p, b, first_query) / Shape::kStep : 0;
    return {place.bh, b, first_query, first_step};
  }
#endif
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Returns the end of the steps of an item.
template <class Shape>
__device__ inline int end_of_steps(const Params& p, const ForwardItem& item) {
  return (min(item.first_query + Shape::kQueries, p.T) - 1) / Shape::kStep + 1;
}

// One thread draws items, tells them to the other warps and loads their keys and values.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void load_keys(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                 const CUtensorMap& qkv_map) {
  const ForwardItems<Shape> items(p);
  int drawn = items.draw(p), step = 0;
  for (int i = 0;; ++i) {
    const ForwardItem item = items.template at<kDocuments>(p, drawn);
    memory.items().wait_empty(i);
    memory.item(i) = item;
    arrive(memory.items().full(i));
    if (item.bh < 0) return;
    drawn = items.draw(p);
    const int h = item.bh - item.b * p.H, end = end_of_steps<Shape>(p, item);
    for (int tile = item.first_step; tile < end; ++tile, ++step) {
      memory.stages().wait_empty(step);
      const uint32_t full = memory.stages().full(step);
      expect_bytes(full, 2 * Shape::kTileBytes + (kDropout ? Shape::kMaskBytes : 0));
      memory.k_tile(step).load(qkv_map, 3 * h + 1, tile * Shape::kStep, item.b, full);
      memory.v_tile(step).load(qkv_map, 3 * h + 2, tile * Shape::kStep, item.b, full);
      // Unrolled, the addresses would spill.
#pragma unroll 1
      for (int row = 0; kDropout && row < Shape::kGroups; ++row) {
        load_bytes(memory.mask(step, row),
                   mask_tile(p, item.bh, item.first_query / kMaskTile + row, tile), kMaskTileBytes,
                   full);
      }
    }
  }
}

// Waits for item number `i` of this block and returns it to one thread.
template <class Shape, bool kDropout>
__device__ inline ForwardItem take_item(const ForwardMemory<Shape, kDropout>& memory, int i) {
  memory.items().wait_full(i);
  const ForwardItem item = memory.item(i);
  arrive(memory.items().empty(i));
  return item;
}

// One thread loads queries.
template <class Shape, bool kDropout>
__device__ inline void load_queries(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                    const CUtensorMap& qkv_map) {
  for (int i = 0;; ++i) {
    const ForwardItem item = take_item(memory, i);
    if (item.bh < 0) return;
    for (int group = 0; group < Shape::kGroups; ++group) {
      const int use = query_use<Shape>(i, group);
      const int query = item.first_query + 64 * row_of_group<Shape>(i, group);
      // A barrier's parity tells only two phases apart. Before the previous use of this tile is full, a wait for the next
      // use would return at once. Where that one is another warpgroup's, tiles become full in the order of their uses: who
      // has had its tile of the item before knows that all earlier ones are full.
      if (Shape::kQueryTiles % Shape::kGroups != 0 && use > 0) memory.queries().wait_full(use - 1);
      memory.queries().wait_empty(use);
      const uint32_t full = memory.queries().full(use);
      expect_bytes(full, Shape::kTileBytes);
      memory.q_tile(use).load(qkv_map, 3 * (item.bh - item.b * p.H), query, item.b, full);
    }
  }
}

// One thread stores results and then hands their memory back to load_queries.
template <class Shape, bool kDropout>
__device__ inline void store_results(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                     const CUtensorMap& out_map) {
  for (int i = 0;; ++i) {
    const ForwardItem item = take_item(memory, i);
    if (item.bh < 0) return;
    for (int group = 0; group < Shape::kGroups; ++group) {
      const int use = query_use<Shape>(i, group);
      const int query = item.first_query + 64 * row_of_group<Shape>(i, group);
      wait_barrier(memory.results_full(use), Buffers<Shape::kQueryTiles>::phase(use));
      if (query < p.T) {
        memory.q_tile(use).store(out_map, item.bh - item.b * p.H, query, item.b);
        commit_stores();
        wait_reads();
      }
      arrive(memory.queries().empty(use));
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
