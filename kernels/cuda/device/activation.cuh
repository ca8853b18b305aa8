// The sigmoid, activations and their derivatives, of which gated linear units also consist. Models
// of 16 bits take the fast exponential and division: their errors of about 2^-21 are nothing beside
// the rounding.
#pragma once

#include "kernels/operations/activation.h"

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

// Returns 1 / (1 + 2^x) by the fast instructions.
__device__ inline float fast_sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0F + power));
  return result;
}

// (1 + tanh u) / 2 is the sigmoid of 2u. Returns it for the u of x, in models of 16 bits. Roundings
// are written out here and below, because a product that computes GELU must have the bits of the
// kernels that do.
__device__ inline float fast_gelu_sigmoid(float x, float square) {
  constexpr float kScale = -2.0F * kSqrt2OverPi * 1.4426950408889634F;  // for a power of 2
  return fast_sigmoid(__fmul_rn(x, __fmaf_rn(kScale * kCubic, square, kScale)));
}

template <typename T>
__device__ inline float activation_value(float x, Activation activation) {
  if (activation == Activation::kGeluErf) return 0.5F * x * (1.0F + erff(x * 0.7071067811865476F));
  if (!is_gelu(activation)) {
    const float positive = x < 0.0F ? 0.0F : x;  // NaN stays
    return activation == Activation::kRelu ? positive : positive * positive;
  }
  if constexpr (sizeof(T) == 2) return __fmul_rn(x, fast_gelu_sigmoid(x, __fmul_rn(x, x)));
  return 0.5F * x * (1.0F + tanhf(kSqrt2OverPi * (x + kCubic * x * x * x)));
}

template <typename T>
__device__ inline float activation_derivative(float x, Activation activation) {
  if (activation == Activation::kGeluErf) {
    const float density = 0.3989422804014327F * expf(-0.5F * x * x);
    return 0.5F * (1.0F + erff(x * 0.7071067811865476F)) + x * density;
  }
  if (!is_gelu(activation)) {
    const float slope = activation == Activation::kRelu ? 1.0F : 2.0F * x;
    return x > 0.0F ? slope : 0.0F;
  }
  if constexpr (sizeof(T) == 2) {
    // With s the sigmoid of 2u: s + x s (1 - s) 2u'.
    const float square = __fmul_rn(x, x), s = fast_gelu_sigmoid(x, square);
    constexpr float kSlope = 2.0F * kSqrt2OverPi;
    const float slope = __fmul_rn(x, __fmaf_rn(3.0F * kCubic * kSlope, square, kSlope));
    // 1 - s comes first: it is 0 where the slope is so large that s beside it would be lost.
    return __fmaf_rn(__fmul_rn(s, slope), __fsub_rn(1.0F, s), s);
  }
  const float t = tanhf(kSqrt2OverPi * (x + kCubic * x * x * x));
  return 0.5F * (1.0F + t) +
         0.5F * x * (1.0F - t * t) * kSqrt2OverPi * (1.0F + 3.0F * kCubic * x * x);
}

}  // namespace weft::cuda
