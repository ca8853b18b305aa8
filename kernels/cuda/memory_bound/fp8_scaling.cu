// Delayed scaling: the next scales of all fp8 tensors from the largest numbers of the steps before.
#include <cmath>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/memory_bound/fp8.cuh"
#include "kernels/numbers/float8.h"
#include "kernels/operations/fp8.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// A warp updates one tensor.
__global__ void update_scaling_kernel(float* states, float* amaxes, int64_t n, int64_t stride,
                                      int64_t length, int64_t slot, float largest,
                                      bool uses_maximum) {
  const int64_t i = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) / 32;
  if (i >= n) return;
  const int lane = threadIdx.x % 32;
  float* state = states + i * stride;
  float* history = state + 2;
  const float amax = isfinite(amaxes[i]) ? amaxes[i] : 0.0F;
  float chosen = amax;
  if (uses_maximum) {
    for (int64_t k = lane; k < length; k += 32)
      if (k != slot) chosen = fmaxf(chosen, history[k]);
    chosen = warp_max(chosen);
  }
  __syncwarp();
  if (lane != 0) return;
  history[slot] = amax;
  amaxes[i] = 0.0F;
  if (chosen == 0.0F) {
    if (state[1] == 0.0F) state[0] = state[1] = 1.0F;  // the state is new: no product may become 0
    return;
  }
  state[1] = scale_of(chosen, largest);
  state[0] = 1.0F / state[1];
}

}  // namespace

void run(const Context& context, const UpdateFp8Scaling& op) {
  const int64_t n = op.states.shape(0);
  const float largest = std::ldexp(float8_format(op.format).largest, -static_cast<int>(op.margin));
  update_scaling_kernel<<<grid_size(ceil_div(n * 32, kThreads)), kThreads, 0, context.stream>>>(
      op.states.as<float>(), op.amaxes.as<float>(), n, op.states.shape(1), op.history_len, op.slot,
      largest, op.uses_maximum);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
