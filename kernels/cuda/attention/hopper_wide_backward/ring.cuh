// The shared memory of backward's kernels for wide tiles on Hopper, and the ring of its stages.
#pragma once

#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/hopper/async_copies.cuh"
#include "kernels/cuda/attention/hopper/panel_tile.cuh"

namespace weft::cuda::attention {

// kGroups warpgroups own 64 rows each; tiles of kStepRows rows of the other side stream through
// kStages stages.
template <typename ElementType, int kHeadSize, int kNumGroups, int kStepRows, int kNumStages,
          int kMinBlocks>
struct HopperShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kGroups = kNumGroups;
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kOwned = 64 * kGroups;
  static constexpr int kStep = kStepRows;
  static constexpr int kStages = kNumStages;
  static constexpr int kBlocksPerSm = kMinBlocks;
  static constexpr int kOwnBytes = 64 * D * 2;      // one tensor of one warpgroup
  static constexpr int kStepBytes = kStep * D * 2;  // one tensor of one stage
  // With dropout, each warpgroup has a tile of the mask in a stage.
  static_assert(kStep == kMaskTile);
  static constexpr int kMaskBytes = kGroups * kMaskTileBytes;
  static constexpr int shared_bytes(int num_own, bool dropout) {
    return kSharedAlignment + num_own * kGroups * kOwnBytes +
           kStages * (2 * kStepBytes + 2 * kStep * 4 + (dropout ? kMaskBytes : 0));
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The ring of stages through which the streamed tiles pass. Thread 0 starts the copies; every warp
// reports when it has read a stage. Steps are counted from 0. A stage is refilled kLag steps after its
// use, so that warpgroups may be that far apart before thread 0 has to wait.
template <int kGroups, int kStages>
struct Ring {
  static constexpr int kLag = kStages > 3 ? 2 : 1;
  uint32_t barriers;  // full[kStages], empty[kStages], own tiles

  static constexpr int kNumBarriers = 2 * kStages + 1;
  __device__ static uint32_t stage(int step) { return static_cast<uint32_t>(step) % kStages; }
  __device__ uint32_t full(int step) const { return barriers + 8 * stage(step); }
  __device__ uint32_t empty(int step) const { return full(step) + 8 * kStages; }
  __device__ uint32_t own() const { return barriers + 16 * kStages; }

  // Initialises the barriers and starts the first copies: own(barrier) copies the block's own tiles,
  // load(step) a stage.
  template <class LoadOwn, class Load>
  __device__ void start(int num_steps, LoadOwn load_own, Load load) const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        init_barrier(full(stage), 1);
        init_barrier(empty(stage), 4 * kGroups);
      }
      init_barrier(own(), 1);
      fence_initialised_barriers();
      load_own(own());
      for (int step = 0; step < kStages && step < num_steps; ++step) load(step);
    }
    __syncthreads();
  }
  __device__ void wait(int step) const {
    wait_barrier(full(step), static_cast<uint32_t>(step) / kStages & 1);
  }
  // Reports that this warp has read `step`.
  __device__ void release(int step) const {
    if ((threadIdx.x & 31) == 0) arrive(empty(step));
  }
  // Call this during `step`, after this warp has released step - kLag.
  template <class Load>
  __device__ void refill(int step, int num_steps, Load load) const {
    if (threadIdx.x < 32) {
      const int old = step - kLag;
      if (threadIdx.x == 0 && old >= 0 && old + kStages < num_steps) {
        wait_barrier(empty(old), static_cast<uint32_t>(old) / kStages & 1);
        load(old + kStages);
      }
      __syncwarp();
    }
  }

  // Releases steps [begin, end) unread.
  template <class Load>
  __device__ void pass(int begin, int end, int num_steps, Load load) const {
    for (int step = begin; step < end; ++step) {
      wait(step);
      release(step);
      refill(step, num_steps, load);
    }
  }
};

#endif  // sm_90a

}  // namespace weft::cuda::attention
