// The part of backward on Hopper that copies tiles to shared memory.
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/hopper_backward/memory.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Draws work tiles and copies their tiles; one thread does all of it. It draws when all tiles of
// the work tile before are on their way, not earlier: the work tiles that follow wait for this one.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void load_tiles(const Params& p, const BackwardMemory<Shape, kDropout>& memory,
                                  const CUtensorMap& q_map, const CUtensorMap& k_map,
                                  const CUtensorMap& v_map, const CUtensorMap& dout_map) {
  int step = 0;
  for (int i = 0;; ++i) {
    memory.own().wait_empty(i);
    const WorkTile work = work_tile_of(p, atomicAdd(p.semaphores, 1));
    memory.work_tile(i) = work;
    const uint32_t own_full = memory.own().full(i);
    if (!work.exists()) {
      arrive(own_full);
      return;
    }
    const int b = work.bh / p.H, h = work.bh % p.H, first_key = work.tile * kTileKeys;
    const int key_head = key_head_of(p, h), row_of_keys = p.k_rows.of(key_head, 0);
    expect_bytes(own_full, 2 * Shape::kGroups * Shape::kTileBytes);
    for (int group = 0; group < Shape::kGroups; ++group) {
      memory.k_tile(i, group).load(k_map, row_of_keys, first_key + 64 * group, b, own_full);
      memory.v_tile(i, group).load(v_map, row_of_keys, first_key + 64 * group, b, own_full);
    }
    const HeadView<Shape> head(p, work.bh);
    const int row_of_head = p.q_rows.of(h, key_head);
    const int last_key = first_key + kTileKeys - 1;
    const int end = kDocuments ? end_of_queries_of(p, b, last_key) : p.T;
    for (int query = first_key; query < end; query += Shape::kStep, ++step) {
      memory.stages().wait_empty(step);
      const uint32_t full = memory.stages().full(step);
      expect_bytes(
          full, 2 * Shape::kTileBytes + 2 * Shape::kStep * 4 + (kDropout ? Shape::kMaskBytes : 0));
      memory.q_tile(step).load(q_map, row_of_head, query, b, full);
      memory.dout_tile(step).load(dout_map, h, query, b, full);
      for (int group = 0; kDropout && group < Shape::kGroups; ++group) {
        load_bytes(memory.mask(step, group),
                   mask_tile(p, work.bh, query / kMaskTile, first_key / kMaskTile + group),
                   kMaskTileBytes, full);
      }
      load_bytes(memory.rows(step), head.lse2 + query, Shape::kStep * 4, full);
      load_bytes(memory.rows(step) + Shape::kStep * 4, head.delta + query, Shape::kStep * 4, full);
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
