// The sigmoid, GELU and its derivative, of which gated linear units also consist. Models of 16 bits take
// the fast exponential and division: their errors of about 2^-21 are nothing beside the rounding.
#pragma once

#include "kernels/backend.h"

namespace weft::cuda {

// Returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as GPT-2 has it, or x Phi(x).
// [Hendrycks & Gimpel 2016, arXiv:1606.08415]
constexpr float kSqrt2OverPi = 0.7978845608028654F;
constexpr float kCubic = 0.044715F;

// Returns numerator / (1 + exp(-x)).
template <typename T>
__device__ inline float times_sigmoid(float numerator, float x) {
  if constexpr (sizeof(T) == 4) return numerator / (1.0F + expf(-x));
  return __fdividef(numerator, 1.0F + __expf(-x));
}

template <typename T>
__device__ inline float gelu_value(float x, Gelu gelu) {
  if (gelu == Gelu::kErf) return 0.5F * x * (1.0F + erff(x * 0.7071067811865476F));
  const float u = kSqrt2OverPi * (x + kCubic * x * x * x);
  // (1 + tanh u) / 2 is the sigmoid of 2u.
  if constexpr (sizeof(T) == 2) return times_sigmoid<T>(x, 2.0F * u);
  return 0.5F * x * (1.0F + tanhf(u));
}

template <typename T>
__device__ inline float gelu_derivative(float x, Gelu gelu) {
  if (gelu == Gelu::kErf) {
    const float density = 0.3989422804014327F * expf(-0.5F * x * x);
    return 0.5F * (1.0F + erff(x * 0.7071067811865476F)) + x * density;
  }
  const float u = kSqrt2OverPi * (x + kCubic * x * x * x);
  const float t = sizeof(T) == 2 ? 2.0F * times_sigmoid<T>(1.0F, 2.0F * u) - 1.0F : tanhf(u);
  return 0.5F * (1.0F + t) +
         0.5F * x * (1.0F - t * t) * kSqrt2OverPi * (1.0F + 3.0F * kCubic * x * x);
}

}  // namespace weft::cuda
