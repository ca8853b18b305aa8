// Copies between memory and shared memory that run beside the threads of a Hopper GPU (sm_90a), and
// the mbarriers with which warps hand buffers to each other. [PTX ISA, "Asynchronous Data Copy
// Operations"]
#pragma once

#include <cstdint>

#include "kernels/cuda/device/order_checks.cuh"

namespace weft::cuda {

// Returns the words of 8 bytes that `num_buffers` of Buffers (below) need.
constexpr int words_of_buffers(int num_buffers) { return (kChecksOrder ? 4 : 2) * num_buffers; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void init_barrier(uint32_t barrier, int num_arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(num_arrivals)
               : "memory");
}
__device__ inline void expect_bytes(uint32_t barrier, int num_bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(num_bytes)
               : "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void wait_barrier(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  WaitLimit limit;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done == 0) limit.check();
  }
}

// Makes the barriers that this thread has initialised known to other threads and to copies.
__device__ inline void fence_initialised_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Makes this thread's writes to shared memory visible to copies and products that others start
// after a barrier.
__device__ inline void fence_shared_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Copies bytes (a multiple of 16) from global to shared memory; they count towards `barrier`.
__device__ inline void load_bytes(uint32_t dst, const void* src, int num_bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(dst),
      "l"(src), "r"(num_bytes), "r"(barrier)
      : "memory");
}

// Ends a group of this thread's bulk stores.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until this thread's stores have read shared memory.
__device__ inline void wait_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Waits until they are in memory.
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// The barriers of `kCount` buffers that are filled and emptied in turns. Uses are counted from 0.
// Where order is checked, counts of the lanes that have filled and emptied each buffer follow.
template <int kCount>
struct Buffers {
  static constexpr int kNumWords = words_of_buffers(kCount);
  uint32_t barriers;  // full[kCount], empty[kCount], lanes_full[kCount], lanes_empty[kCount]

  __device__ static int index(int use) { return static_cast<uint32_t>(use) % kCount; }
  __device__ static uint32_t phase(int use) { return static_cast<uint32_t>(use) / kCount & 1; }
  __device__ uint32_t full(int use) const { return barriers + 8 * index(use); }
  __device__ uint32_t empty(int use) const { return full(use) + 8 * kCount; }
  __device__ AccessCount lanes_full(int use) const { return {empty(use) + 8 * kCount}; }
  __device__ AccessCount lanes_empty(int use) const { return {empty(use) + 16 * kCount}; }
  __device__ uint32_t end() const { return barriers + 8 * kNumWords; }

  // The arrivals at `empty` are those of warps, and of threads that read a buffer alone.
  __device__ void init(int num_full_arrivals, int num_empty_arrivals) const {
    for (int i = 0; i < kCount; ++i) {
      init_barrier(full(i), num_full_arrivals);
      init_barrier(empty(i), num_empty_arrivals);
      lanes_full(i).init(32 * num_full_arrivals);
      lanes_empty(i).init(32 * num_empty_arrivals);
    }
  }
  __device__ void wait_full(int use) const { wait_barrier(full(use), phase(use)); }
  // Waits for a buffer that warps fill by fill_by_warp().
  __device__ void wait_filled_by_warps(int use) const {
    wait_full(use);
    lanes_full(use).require(use / kCount + 1);
  }
  // Returns at once for the first use of a buffer.
  __device__ void wait_empty(int use) const {
    wait_barrier(empty(use), phase(use) ^ 1);
    lanes_empty(use).require(use / kCount);
  }
  // Tells copies, products and threads that wait for it that all lanes of this warp have written
  // their parts of the buffer.
  __device__ void fill_by_warp(int use) const {
    fence_shared_async();
    lanes_full(use).add();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) arrive(full(use));
  }
  // Hands the buffer back when all lanes of this warp have read it.
  __device__ void empty_by_warp(int use) const {
    lanes_empty(use).add();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) arrive(empty(use));
  }
  // Hands it back for a warp of which no other thread has read it.
  __device__ void empty_by_thread(int use) const {
    lanes_empty(use).add(32);
    arrive(empty(use));
  }
};

#endif  // sm_90a

}  // namespace weft::cuda
