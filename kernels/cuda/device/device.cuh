// Device functions that all kernels share: 16-byte vectors, reductions, dropout.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device/check.h"
#include "kernels/numbers/dropout.h"
#include "kernels/numbers/philox.h"

namespace weft::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

// Memory is read and written in pieces of 16 bytes (4 floats, or 8 numbers of a 16-bit type), and
// numbers of 16 bits beside 4 floats in pieces of 8; arithmetic is in float.
template <typename T, int kCount = 16 / sizeof(T)>
struct alignas(sizeof(T) * kCount) Vec {
  static constexpr int kSize = kCount;
  T v[kSize];
};

template <int kCount, typename T>
__device__ inline Vec<T, kCount> load_vec(const T* data) {
  return *reinterpret_cast<const Vec<T, kCount>*>(data);
}
template <typename T>
__device__ inline Vec<T> load_vec(const T* data) {
  return *reinterpret_cast<const Vec<T>*>(data);
}

// The store is written in assembly because the compiler splits a plain assignment into stores of 4
// bytes when the words lie in registers that are not neighbours.
template <typename T, int kCount>
__device__ inline void store_vec(T* data, const Vec<T, kCount>& vec) {
  if constexpr (sizeof(vec) == 16) {
    const uint4 words = *reinterpret_cast<const uint4*>(&vec);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(data), "r"(words.x), "r"(words.y),
                 "r"(words.z), "r"(words.w)
                 : "memory");
  } else {
    static_assert(sizeof(vec) == 8);
    const uint2 words = *reinterpret_cast<const uint2*>(&vec);
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(data), "r"(words.x), "r"(words.y)
                 : "memory");
  }
}

// Starts a copy of 16 bytes from global to shared memory [PTX ISA, cp.async]. After async_wait the
// copying thread may read them; other threads need a barrier as well.
template <typename T>
__device__ inline void async_load_vec(Vec<T>* shared, const T* data) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(data) : "memory");
}

// Makes one group of the copies that this thread has started since the last call.
__device__ inline void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the latest kPending groups of this thread are unfinished.
template <int kPending>
__device__ inline void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ inline void unpack(const Vec<float>& vec, float (&out)[4]) {
  for (int i = 0; i < 4; ++i) out[i] = vec.v[i];
}

template <int kCount>
__device__ inline void unpack(const Vec<bf16, kCount>& vec, float (&out)[kCount]) {
  const auto* words = reinterpret_cast<const uint32_t*>(&vec);
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

template <int kCount>
__device__ inline void unpack(const Vec<fp16, kCount>& vec, float (&out)[kCount]) {
  const auto* pairs = reinterpret_cast<const __half2*>(&vec);
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float2 pair = __half22float2(pairs[i]);
    out[2 * i] = pair.x;
    out[2 * i + 1] = pair.y;
  }
}

// Rounds two neighbours to the nearest numbers of a 16-bit type. What is too large for fp16 becomes
// infinite, and never the largest number: an overflow of gradients has to be found.
template <typename T>
__device__ inline auto round_pair(float first, float second) {
  if constexpr (std::is_same_v<T, bf16>) {
    return __floats2bfloat162_rn(first, second);
  } else {
    return __floats2half2_rn(first, second);
  }
}

template <typename T, int kCount>
__device__ inline Vec<T, kCount> pack(const float (&values)[kCount]) {
  if constexpr (sizeof(T) == 4) {
    return {{values[0], values[1], values[2], values[3]}};
  } else {
    Vec<T, kCount> vec;
    auto* pairs = reinterpret_cast<decltype(round_pair<T>(0.0F, 0.0F))*>(&vec);
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) pairs[i] = round_pair<T>(values[2 * i], values[2 * i + 1]);
    return vec;
  }
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Sums each value over the threads of the block; every thread gets the sums. All threads must call,
// and the block must have whole warps.
template <int kCount>
__device__ inline void block_sum(float (&values)[kCount]) {
  __shared__ float shared[32][kCount];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
  __syncthreads();  // the previous call's readers are done
  if (lane == 0) {
    for (int i = 0; i < kCount; ++i) shared[warp][i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = warp_sum(lane < num_warps ? shared[lane][i] : 0.0F);
}

__device__ inline float block_max(float value) {
  __shared__ float shared[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
  value = warp_max(value);
  __syncthreads();
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return warp_max(lane < num_warps ? shared[lane] : -INFINITY);
}

// Dropout (kernels/numbers/dropout.h) as the device uses it: the threshold and the scale are
// computed once.
struct DropoutMask {
  uint64_t seed, stream, first_element;
  uint32_t threshold;  // dropped when the element's number is below; 0: no dropout
  float scale;
};

inline DropoutMask make_mask(const Dropout& dropout) {
  return {dropout.seed, dropout.stream, dropout.first_element, dropout_threshold(dropout.p),
          dropout_scale(dropout.p)};
}

// Applies the mask to kCount neighbours, the first of which is element `element` of the tensor.
template <int kCount>
__device__ inline void apply_mask(const DropoutMask& mask, uint64_t element,
                                  float (&values)[kCount]) {
  static_assert(kCount == 4 || kCount == kDropoutsPerBlock);
  const uint64_t first = mask.first_element + element;
  const int within = static_cast<int>(first % kDropoutsPerBlock);
  if (within % kCount == 0) {  // all lie in one block
    const PhiloxBlock block = dropout_block(mask.seed, mask.stream, first / kDropoutsPerBlock);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t number =
          kCount == 4 && within != 0 ? dropout_number(block, i + 4) : dropout_number(block, i);
      values[i] = number < mask.threshold ? 0.0F : values[i] * mask.scale;
    }
  } else {
    for (int i = 0; i < kCount; ++i) {
      const uint32_t number = dropout_number_of(mask.seed, mask.stream, first + i);
      values[i] = number < mask.threshold ? 0.0F : values[i] * mask.scale;
    }
  }
}

// Calls function(T{}) with the C++ type of `x`.
template <typename Function>
void dispatch(DType x, Function function) {
  if (x == DType::kFloat32) {
    function(float{});
  } else if (x == DType::kBFloat16) {
    function(bf16{});
  } else if (x == DType::kFloat16) {
    function(fp16{});
  } else {
    throw std::invalid_argument("the model's type must be float32, bfloat16 or float16");
  }
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline unsigned grid_size(int64_t blocks) {
  if (blocks > 0x7fffffff)
    throw std::invalid_argument("tensor too large for one kernel launch (2^31 - 1 blocks)");
  return static_cast<unsigned>(blocks);
}

// Returns the current device's number of multiprocessors. Fixed grids are multiples of it.
inline int num_multiprocessors() {
  int device = 0, count = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

}  // namespace weft::cuda
