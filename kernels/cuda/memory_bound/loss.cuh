// The softmax of a row, which the loss and the loss over a sharded vocabulary share. A block owns a
// row.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace weft::cuda {

constexpr int kLossThreads = 1024;

// Returns exp(x - maximum). Models of 16 bits use the special-function unit, in two instructions.
// Its error of about 2^-22 is nothing beside their rounding; __expf needs four more instructions to
// get denormal results right.
template <typename T>
__device__ inline float exponential(float x, float maximum) {
  if constexpr (sizeof(T) == 4) return expf(x - maximum);
  constexpr float kLog2E = 1.4426950408889634F;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(fmaf(x, kLog2E, -maximum * kLog2E)));
  return result;
}

// Returns the larger one, or NaN where one of them is NaN (fmaxf returns the other one).
__device__ inline float larger_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Returns the largest element, or NaN where any is NaN.
__device__ inline float largest_of(const Vec<float>& vec) {
  return larger_or_nan(larger_or_nan(vec.v[0], vec.v[1]), larger_or_nan(vec.v[2], vec.v[3]));
}

template <typename T>
__device__ inline float largest_of(const Vec<T>& vec) {
  using Pair = decltype(round_pair<T>(0.0F, 0.0F));
  const auto* pairs = reinterpret_cast<const Pair*>(&vec);
  const Pair pair = __hmax2_nan(__hmax2_nan(pairs[0], pairs[1]), __hmax2_nan(pairs[2], pairs[3]));
  return static_cast<float>(__hmax_nan(pair.x, pair.y));
}

// Puts minus infinity into the columns that do not take part.
template <typename T>
__device__ inline void leave_out_columns_from(int count, Vec<T>& vec) {
#pragma unroll
  for (int j = 0; j < Vec<T>::kSize; ++j)
    if (j >= count) vec.v[j] = static_cast<T>(-INFINITY);
}

// The largest logit and the sum of exponentials relative to it.
// [Milakov & Gimelshein 2018, arXiv:1805.02867]
template <typename T>
struct LogSum {
  float maximum = -INFINITY, total = 0.0F;

  __device__ void absorb(const Vec<T>& vec) {
    const float largest = largest_of(vec);
    if (largest > maximum) {
      total *= exponential<T>(maximum, largest);
      maximum = largest;
    }
    if (largest == -INFINITY) return;  // a vector of left-out columns only
    float values[Vec<T>::kSize];
    unpack(vec, values);
#pragma unroll
    for (int j = 0; j < Vec<T>::kSize; ++j) total += exponential<T>(values[j], maximum);
  }

  // Combines the values of all lanes; every lane gets the result.
  __device__ void join_warp() {
    const float largest = warp_max(maximum);
    // A lane without a maximum has a total of 0, or NaN, which must reach the loss.
    total = warp_sum(maximum == -INFINITY ? total : total * exponential<T>(maximum, largest));
    maximum = largest;
  }

  // Combines the values of all threads. `turn` alternates between two places, so that one barrier
  // suffices: no thread writes where others still read.
  __device__ void join_block(int turn) {
    __shared__ float shared[2][2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
    join_warp();
    if (lane == 0) {
      shared[turn][0][warp] = maximum;
      shared[turn][1][warp] = total;
    }
    __syncthreads();
    maximum = lane < num_warps ? shared[turn][0][lane] : -INFINITY;
    total = lane < num_warps ? shared[turn][1][lane] : 0.0F;
    join_warp();
  }
};

}  // namespace weft::cuda
