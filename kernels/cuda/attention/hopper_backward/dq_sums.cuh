// The part of backward on Hopper that adds a work tile's dQ to those of other work tiles: one
// thread for each warpgroup brings the sums of its blocks to memory when it has acquired their
// semaphores (semaphores.cuh), while the warpgroup goes on. Where a work tile is the last one to
// add, the warpgroup adds the others' sums to its product in registers, and the thread stores dQ.
// Where the gradient of a bias is wanted, one more warp sums dQ's columns (dq_columns.cuh).
#pragma once

#include "kernels/cuda/attention/hopper_backward/memory.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void store_bytes(void* dst, uint32_t src, int num_bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src),
               "r"(num_bytes)
               : "memory");
}
__device__ inline void add_floats(float* dst, uint32_t src, int num_bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst),
      "r"(src), "r"(num_bytes)
      : "memory");
}

// Adds the sums of block `number` of those that the block of threads has formed to block `block` of
// the sequence, where other work tiles follow. The buffer is free before the semaphore is released.
template <class Shape, bool kDropout>
__device__ inline void add_sums(const Params& p, const BackwardMemory<Shape, kDropout>& memory,
                                const WorkTile& work, const Semaphores& semaphores, int block,
                                int number) {
  float* const sums = sums_of<Shape::D>(p, work, block);
  semaphores.acquire(block);
  memory.sums_barriers().wait_filled_by_warps(number);
  if (semaphores.is_first(block)) {
    store_bytes(sums, memory.sums(number), Shape::kSumBytes);
  } else {
    add_floats(sums, memory.sums(number), Shape::kSumBytes);
  }
  commit_stores();
  wait_reads();
  memory.sums_barriers().empty_by_thread(number);
  wait_stores();
  semaphores.release(block);
}

// Takes the blocks of queries of a warpgroup of all work tiles. One thread does it.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void add_query_gradients(const Params& p,
                                           const BackwardMemory<Shape, kDropout>& memory, int group,
                                           const CUtensorMap& dq_map) {
  using Last = LastTile<Shape, kDocuments>;
  int num_blocks = 0;
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const WorkTile work = memory.work_tile(i);
    memory.own().empty_by_thread(i);
    if (!work.exists()) return;
    const Steps<Shape, kDocuments> steps(p, work);
    const Semaphores semaphores(p, work);
    const int h = work.bh % p.H, row_of_head = p.dq_rows.of(h, key_head_of(p, h));
    const int first = steps.begin + ((num_blocks ^ group) & 1);
    for (int block = first; block < steps.end; block += Shape::kGroups) {
      const int number = num_blocks + block - steps.begin;
      const Last last(p, work, block);
      if (!last.is_last) {
        add_sums(p, memory, work, semaphores, block, number);
        continue;
      }
      if (last.is_only) semaphores.acquire(block);
      memory.sums_barriers().wait_filled_by_warps(number);
      memory.dq_tile(number).store(dq_map, row_of_head, block * kSemaphoreQueries, work.bh / p.H);
      commit_stores();
      wait_reads();
      memory.sums_barriers().empty_by_thread(number);
    }
    // Only a later head waits for what follows the last additions, so one fence is enough for all
    // of them.
    if (kDocuments || work.tile == 0) {
      __threadfence();
      for (int block = first; block < steps.end; block += Shape::kGroups) {
        if (Last(p, work, block).is_last) semaphores.finish(block);
      }
    }
    num_blocks += steps.end - steps.begin;
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
