// The sums of a work tile's dV over its keys, for the gradient of a bias with dropout
// (backward_workspace/bias_sums.h).
#pragma once

#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/cuda/hopper/warpgroup.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Adds dV over a warp's 16 keys.
template <class Shape>
__device__ inline void sum_values(const float (&dv)[Shape::D / 8][4],
                                  float (*value_sums)[Shape::D]) {
  constexpr int kN = Shape::D / 8;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4;
  // Lanes of equal (lane & 3) hold the same columns. They exchange halves of what they hold.
  float half[kN][1], quarter[kN / 2][2];
  const bool upper_half = lane & 16, upper_quarter = lane & 8;
#pragma unroll
  for (int n = 0; n < kN; ++n) {
    const float even = dv[n][0] + dv[n][2], odd = dv[n][1] + dv[n][3];
    half[n][0] =
        (upper_half ? odd : even) + __shfl_xor_sync(0xFFFFFFFFu, upper_half ? even : odd, 16);
  }
#pragma unroll
  for (int n = 0; n < kN / 2; ++n) {
    const float low = half[2 * n][0], high = half[2 * n + 1][0];
    quarter[n][0] =
        (upper_quarter ? high : low) + __shfl_xor_sync(0xFFFFFFFFu, upper_quarter ? low : high, 8);
    quarter[n][0] += __shfl_xor_sync(0xFFFFFFFFu, quarter[n][0], 4);
    const int column = (2 * n + upper_quarter) * 8 + (lane & 3) * 2 + upper_half;
    if ((lane & 4) == 0) value_sums[warp][column] = quarter[n][0];
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
