// The shared memory of backward's kernels for wide tiles on Hopper, and the ring of its stages.
#pragma once

#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/hopper/async_copies.cuh"
#include "kernels/cuda/hopper/panel_tile.cuh"

namespace weft::cuda::attention {

constexpr int kWideGroups = 2;  // warpgroups of a block, which own 64 rows each
constexpr int kWideStages = 3;  // Tiles of the other side stream through them.

struct WideMaps {
  CUtensorMap q, k, v, dout;
};

// The sizes of both kernels.
template <typename ElementType>
struct WideShape {
  using Element = ElementType;
  static constexpr int D = 160;
  static constexpr bool kPadded = false;
  static constexpr int kGroups = kWideGroups, kStages = kWideStages;
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kOwned = 64 * kGroups;
  static constexpr int kStep = 64;                  // rows of a stage
  static constexpr int kOwnBytes = 64 * D * 2;      // one tensor of one warpgroup
  static constexpr int kStepBytes = kStep * D * 2;  // one tensor of one stage
  // With dropout, each warpgroup has a tile of the mask in a stage.
  static_assert(kStep == kMaskTile);
  static constexpr int kMaskBytes = kGroups * kMaskTileBytes;
  static constexpr int shared_bytes(bool dropout) {
    return kSharedAlignment + 2 * kGroups * kOwnBytes +
           kStages * (2 * kStepBytes + 2 * kStep * 4 + (dropout ? kMaskBytes : 0));
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The ring of stages through which the streamed tiles pass. Thread 0 starts the copies; every warp
// reports when it has read a stage. Steps are counted from 0. A stage is refilled one step after
// its use, so that warpgroups may be that far apart before thread 0 has to wait.
struct Ring {
  static constexpr int kStages = kWideStages;
  using Stages = Buffers<kStages>;
  static constexpr int kNumWords = Stages::kNumWords + 1;
  uint32_t barriers;  // those of the stages, then that of the own tiles

  __device__ static int stage(int step) { return Stages::index(step); }
  __device__ Stages stages() const { return {barriers}; }
  __device__ uint32_t full(int step) const { return stages().full(step); }
  __device__ uint32_t own() const { return stages().end(); }

  // Initialises the barriers and starts the first copies: own(barrier) copies the block's own
  // tiles, load(step) a stage.
  template <class LoadOwn, class Load>
  __device__ void start(int num_steps, LoadOwn load_own, Load load) const {
    if (threadIdx.x == 0) {
      stages().init(1, 4 * kWideGroups);
      init_barrier(own(), 1);
      fence_initialised_barriers();
      load_own(own());
      for (int step = 0; step < kStages && step < num_steps; ++step) load(step);
    }
    __syncthreads();
  }
  __device__ void wait(int step) const { stages().wait_full(step); }
  // Reports that all lanes of this warp have read `step`.
  __device__ void release(int step) const { stages().empty_by_warp(step); }
  // Call this during `step`, after this warp has released the step before.
  template <class Load>
  __device__ void refill(int step, int num_steps, Load load) const {
    if (threadIdx.x < 32) {
      const int next = step - 1 + kStages;
      if (threadIdx.x == 0 && step > 0 && next < num_steps) {
        stages().wait_empty(next);
        load(next);
      }
      __syncwarp();
    }
  }

  // Releases steps [begin, end) unread. Here, too, a warp releases a step when all of its lanes
  // have seen it: a barrier's parity tells only two phases apart, so a lane that is late until the
  // stage is full again could wait for ever.
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
