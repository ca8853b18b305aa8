// The shared memory of a product on Hopper, and the barriers with which its warps hand tiles to
// each other:
//
//   loading warp -> stages (tiles of both factors) -> multiplying warpgroups -> results -> writing
//   warps
//
// Two blocks form a cluster. Their tiles of the results lie one below the other, so they need the
// same tile of the right factor: each copies half of it into both blocks' memory ("multicast"). The
// first block's loading warp announces the tiles to all warps of both blocks.
#pragma once

#include "kernels/cuda/device/order_checks.cuh"
#include "kernels/cuda/hopper/async_copies.cuh"
#include "kernels/cuda/hopper/panel_tile.cuh"

namespace weft::cuda::fused_gemm {

constexpr int kTileM = 128, kTileN = 256, kTileK = 64;  // a tile of results, and terms in a stage
constexpr int kCluster = 2;                             // blocks
constexpr int kStages = 3;
constexpr int kGroups = 2;   // warpgroups that multiply, with 64 rows of the tile each
constexpr int kWriters = 3;  // writing warps
constexpr int kThreads = 128 * (kGroups + 1);

constexpr int kLeftBytes = kTileM * kTileK * 2, kRightBytes = kTileN * kTileK * 2;
constexpr int kStageBytes = kLeftBytes + kRightBytes;
// Rows of results are 16 bytes apart from a multiple of 128, so that the rows of a matrix of 8 x 8
// lie in different banks.
constexpr int kResultRowBytes = kTileN * 2 + 16;
constexpr int kResultBytes = 64 * kResultRowBytes;
constexpr int kBiasBytes = kTileN * 2;
// Places for announced tiles. While one tile is loaded the next is announced; multiplying warps may
// still be at the tile before these two, and writing warps at the tile before that.
constexpr int kAnnounced = 4;
// Threads of a block that read each origin: those that multiply, those that write and one that
// loads.
constexpr int kTileReaders = 128 * kGroups + 32 * kWriters + 1;
// Backward: each writing warp fetches rows of `pre` ahead.
constexpr int kAheadRows = 8, kAheadRowBytes = kTileN * 2;
constexpr int kAheadBytes = kAheadRows * kAheadRowBytes;

constexpr int shared_bytes(bool backward) {
  return kSharedAlignment + kStages * kStageBytes + kGroups * kResultBytes +
         (backward ? kWriters * kAheadBytes : 2 * kBiasBytes);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct GemmMemory {
  static constexpr int kNumBarriers = 2 * kStages + 2 * kGroups + kAnnounced;
  // Words have 8 bytes: barriers, then origins, and where order is checked counts of reads.
  static constexpr int kNumWords = kNumBarriers + kAnnounced + (kChecksOrder ? 2 + kAnnounced : 0);
  uint32_t base, barriers;

  // --- the stages; steps are counted from 0 over all tiles of this block ---
  __device__ static uint32_t stage(int step) { return static_cast<uint32_t>(step) % kStages; }
  __device__ static uint32_t phase(int step) { return static_cast<uint32_t>(step) / kStages & 1; }
  __device__ uint32_t left(int step) const { return base + stage(step) * kStageBytes; }
  __device__ uint32_t right(int step) const { return left(step) + kLeftBytes; }
  __device__ uint32_t full(int step) const { return barriers + 8 * stage(step); }
  __device__ uint32_t empty(int step) const { return full(step) + 8 * kStages; }

  // --- the results of a warpgroup's 64 rows; tiles are counted from 0 ---
  __device__ uint32_t results(int group) const {
    return base + kStages * kStageBytes + group * kResultBytes;
  }
  __device__ uint32_t results_full(int group) const { return barriers + 8 * (2 * kStages + group); }
  __device__ uint32_t results_empty(int group) const { return results_full(group) + 8 * kGroups; }

  // --- announced tiles: a barrier, and where the tile begins (Origin) ---
  __device__ uint32_t announced(int tile) const {
    return barriers + 8 * (2 * kStages + 2 * kGroups + static_cast<uint32_t>(tile) % kAnnounced);
  }
  __device__ uint32_t origin(int tile) const { return announced(tile) + 8 * kAnnounced; }
  __device__ static uint32_t announced_phase(int tile) {
    return static_cast<uint32_t>(tile) / kAnnounced & 1;
  }

  // --- forward: the bias of a tile's columns, of two tiles in turn ---
  __device__ uint32_t bias(int tile) const {
    return results(kGroups) + (static_cast<uint32_t>(tile) & 1) * kBiasBytes;
  }
  // --- where order is checked: how many threads have read a bias, or an origin ---
  __device__ AccessCount bias_reads(int tile) const {
    return {origin(0) + 8 * (kAnnounced + (static_cast<uint32_t>(tile) & 1))};
  }
  __device__ AccessCount origin_reads(int tile) const {
    return {bias_reads(0).address + 8 * (2 + static_cast<uint32_t>(tile) % kAnnounced)};
  }
  // --- backward: a writing warp's rows of `pre` ---
  __device__ uint32_t ahead(int writer) const { return results(kGroups) + writer * kAheadBytes; }

  // One thread initialises the barriers.
  __device__ void init_barriers() const {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(full(s), 1);
      init_barrier(empty(s), kGroups * kCluster);
    }
    for (int group = 0; group < kGroups; ++group) {
      init_barrier(results_full(group), 4);
      init_barrier(results_empty(group), kWriters);
    }
    for (int tile = 0; tile < kAnnounced; ++tile) init_barrier(announced(tile), 1);
    for (int tile = 0; tile < kAnnounced; ++tile) origin_reads(tile).init(kTileReaders);
    for (int tile = 0; tile < 2; ++tile) bias_reads(tile).init(128 * kGroups);
    fence_initialised_barriers();
  }
};

__device__ inline int rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Arrives at the barrier that lies at the same place in the memory of the cluster's block `rank`.
// The plain form does: what it orders are reads by products that are complete. (`.release.cluster`
// becomes a fence for the whole GPU in each step, which made products take a third longer.)
__device__ inline void arrive_in_cluster(uint32_t barrier, int rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// Starts copying a box at column x and row y of a matrix; its bytes count towards `barrier`.
__device__ inline void load_box(uint32_t dst, const CUtensorMap& map, int x, int y,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(dst),
      "l"(&map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
// Starts copying it into both blocks of the cluster.
__device__ inline void load_box_to_both(uint32_t dst, const CUtensorMap& map, int x, int y,
                                        uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "h"(static_cast<uint16_t>(3))
      : "memory");
}

#endif  // sm_90a

}  // namespace weft::cuda::fused_gemm
