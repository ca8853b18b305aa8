// Times products under a training step's conditions.
//
// Before each call a pass over memory empties the L2 cache, as a step's other operations do, and a
// batch is enqueued as a whole, so that the GPU stays busy and near its power limit.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "kernels/cuda/device/check.h"

namespace weft::cuda {

class GemmTimer {
 public:
  using Launches = std::vector<std::function<void()>>;

  // Takes kPassBytes of device memory. The launches are on `stream`.
  explicit GemmTimer(cudaStream_t stream);
  ~GemmTimer();
  GemmTimer(const GemmTimer&) = delete;
  GemmTimer& operator=(const GemmTimer&) = delete;

  // Products that take less do not bring the GPU to its power limit, and a longer search for them
  // would outlast what it saves.
  static constexpr float kShortMs = 0.05F;

  // Returns each launch's median of `turns` times, the shorter of two. Turns alternate in
  // direction, so that a drifting clock drifts for all launches alike.
  std::vector<float> in_turns(const Launches& launches, int turns);

  // Returns each launch's mean time at the clock that its own draw of power leaves it: two blocks
  // of kBlockMs, whose first halves let the clock settle. Two products that take equally long in
  // turns may differ by 5 % here. `call_ms` is about the time of one call.
  std::vector<float> in_blocks(const Launches& launches, float call_ms);

  // Returns the times in blocks of launches that draw enough power for it to matter, else those in
  // turns.
  std::vector<float> in_turns_or_blocks(const Launches& launches, int turns);

  // Enqueues a pass over memory on any stream.
  void pass_over_memory(cudaStream_t stream);

 private:
  // Three times the L2 cache of the GPUs that have the largest.
  static constexpr int64_t kPassBytes = int64_t{160} << 20;
  static constexpr float kBlockMs = 50;

  void enqueue(const std::function<void()>& launch, size_t call);
  float elapsed_ms(size_t call);

  cudaStream_t stream_;
  TemporaryMemory memory_;
  std::vector<cudaEvent_t> events_;  // two a call
};

}  // namespace weft::cuda
