// Numbers of 16 bits in registers: rounding, widening and products of pairs, and the fast
// exponential.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace weft::cuda {

// Element is __nv_bfloat16 or __half. Tiles and their copies move 16 bits of either.
template <typename Element>
constexpr bool kIsFp16 = std::is_same_v<Element, __half>;

// Rounds two neighbours. What is too large for fp16 becomes infinite: probabilities never are, and
// gradients that are mean a loss scale that is too large, for which the step is skipped.
template <typename Element>
__device__ inline uint32_t pack(float low, float high) {
  uint32_t packed;
  if constexpr (kIsFp16<Element>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

__device__ inline float2 widen(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ inline float2 widen(__half2 pair) { return __half22float2(pair); }

template <typename Element>
__device__ inline float2 unpack(uint32_t packed) {
  using Pair = std::conditional_t<kIsFp16<Element>, __half2, __nv_bfloat162>;
  return widen(reinterpret_cast<const Pair&>(packed));
}

// The instruction is volatile, so that the compiler does not move it across the waits for the
// asynchronous products that it overlaps with.
__device__ inline float fast_exp2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns the scalar product of eight pairs.
template <typename Element>
__device__ inline float dot(const uint4& x, const uint4& y) {
  using Pair = std::conditional_t<kIsFp16<Element>, __half2, __nv_bfloat162>;
  const auto* a = reinterpret_cast<const Pair*>(&x);
  const auto* b = reinterpret_cast<const Pair*>(&y);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 u = widen(a[i]), v = widen(b[i]);
    sum += u.x * v.x + u.y * v.y;
  }
  return sum;
}

}  // namespace weft::cuda
