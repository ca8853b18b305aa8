// Forward and backward of the residual norm share this.
//
// R is the type of the residual stream and X the model's: R is X, or float beside an X of 16 bits.
// The vectors of a row are those of R. Where X is smaller its vectors have as many numbers, in 8
// bytes.
#pragma once

#include "kernels/cuda/device/device.cuh"
#include "kernels/operations/residual_norm.h"

namespace weft::cuda {

// Four numbers of a 16-bit type, which lie beside four of the stream.
template <typename X>
struct alignas(8) HalfVec {
  X v[4];
};
template <typename R, typename X>
using VecBeside = std::conditional_t<std::is_same_v<R, X>, Vec<X>, HalfVec<X>>;

// Loads the numbers beside a vector of R.
template <typename R, typename X>
__device__ inline VecBeside<R, X> load_beside(const X* data) {
  return *reinterpret_cast<const VecBeside<R, X>*>(data);
}

template <typename X>
__device__ inline void store_vec(X* data, const HalfVec<X>& vec) {
  const uint2 words = *reinterpret_cast<const uint2*>(&vec);
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(data), "r"(words.x), "r"(words.y)
               : "memory");
}

__device__ inline void unpack(const HalfVec<bf16>& vec, float (&out)[4]) {
  const auto* words = reinterpret_cast<const uint32_t*>(&vec);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

__device__ inline void unpack(const HalfVec<fp16>& vec, float (&out)[4]) {
  const auto* pairs = reinterpret_cast<const __half2*>(&vec);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 pair = __half22float2(pairs[i]);
    out[2 * i] = pair.x;
    out[2 * i + 1] = pair.y;
  }
}

// Rounds to X what has as many numbers as a vector of R.
template <typename R, typename X>
__device__ inline VecBeside<R, X> pack_beside(const float (&values)[Vec<R>::kSize]) {
  if constexpr (std::is_same_v<R, X>) {
    return pack<X>(values);
  } else {
    HalfVec<X> vec;
    auto* pairs = reinterpret_cast<decltype(round_pair<X>(0.0F, 0.0F))*>(&vec);
#pragma unroll
    for (int i = 0; i < 2; ++i) pairs[i] = round_pair<X>(values[2 * i], values[2 * i + 1]);
    return vec;
  }
}

// Calls function(R{}, X{}) with the C++ types of the stream and the model.
template <typename Function>
void dispatch_stream(DType r, DType x, Function function) {
  dispatch(x, [&](auto model) {
    using X = decltype(model);
    if constexpr (!std::is_same_v<X, float>) {
      if (r == DType::kFloat32) return function(float{}, model);
    }
    function(X{}, model);
  });
}

// Backward of the sum alone, without a norm: dresidual = dresidual_in, dbranch = dropout'(it).
void residual_sum_backward(cudaStream_t stream, const ResidualNormBackward& args);
// The gradient of a bias whose rows repeat (the positions): row n of `dbranch` (N,C) is added to
// row (first_row + n) % bias_period of dbranch_bias (S,C).
void periodic_bias_backward(cudaStream_t stream, const ResidualNormBackward& args,
                            const Tensor& dbranch);

}  // namespace weft::cuda
