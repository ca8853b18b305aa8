// Gated linear units. A thread computes 16 bytes of the output and reads those of gate and up,
// which lie F columns apart in a row of (N,2F).
#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/operations/activation.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, Glu kGlu>
__device__ inline float activation(float x) {
  if constexpr (kGlu == Glu::kSwiglu) return times_sigmoid<T>(x, x);
  if constexpr (kGlu == Glu::kGeglu) return activation_value<T>(x, Activation::kGeluErf);
  if constexpr (kGlu == Glu::kReglu) return fmaxf(x, 0.0F);
  return x;
}

template <typename T, Glu kGlu>
__device__ inline float activation_slope(float x) {
  if constexpr (kGlu == Glu::kSwiglu) {
    const float sigmoid = times_sigmoid<T>(1.0F, x);
    return sigmoid + x * sigmoid * (1.0F - sigmoid);
  }
  if constexpr (kGlu == Glu::kGeglu) return activation_derivative<T>(x, Activation::kGeluErf);
  if constexpr (kGlu == Glu::kReglu) return x > 0.0F ? 1.0F : 0.0F;
  return 1.0F;
}

template <typename T, Glu kGlu>
__global__ void glu_forward_kernel(T* out, const T* pre, int64_t n, int64_t F) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t first = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * kSize;
  if (first >= n) return;
  const T* gate_data = pre + first + first / F * F;
  float gate[kSize], up[kSize];
  unpack(load_vec(gate_data), gate);
  unpack(load_vec(gate_data + F), up);
#pragma unroll
  for (int i = 0; i < kSize; ++i) up[i] *= activation<T, kGlu>(gate[i]);
  store_vec(out + first, pack<T>(up));
}

template <typename T, Glu kGlu>
__global__ void glu_backward_kernel(T* dpre, const T* dout, const T* pre, int64_t n, int64_t F) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t first = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * kSize;
  if (first >= n) return;
  const int64_t gate_at = first + first / F * F;
  float gate[kSize], up[kSize], gradient[kSize];
  unpack(load_vec(pre + gate_at), gate);
  unpack(load_vec(pre + gate_at + F), up);
  unpack(load_vec(dout + first), gradient);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float value = activation<T, kGlu>(gate[i]);
    gate[i] = gradient[i] * up[i] * activation_slope<T, kGlu>(gate[i]);
    up[i] = gradient[i] * value;
  }
  store_vec(dpre + gate_at, pack<T>(gate));
  store_vec(dpre + gate_at + F, pack<T>(up));
}

// Calls function(T{}, std::integral_constant<Glu, ...>{}).
template <typename Function>
void dispatch_glu(DType x, Glu glu, Function function) {
  dispatch(x, [&](auto type) {
    switch (glu) {
      case Glu::kSwiglu:
        return function(type, std::integral_constant<Glu, Glu::kSwiglu>{});
      case Glu::kGeglu:
        return function(type, std::integral_constant<Glu, Glu::kGeglu>{});
      case Glu::kReglu:
        return function(type, std::integral_constant<Glu, Glu::kReglu>{});
      case Glu::kLiglu:
        return function(type, std::integral_constant<Glu, Glu::kLiglu>{});
      case Glu::kNone:
        break;
    }
    throw std::invalid_argument("a gated linear unit without an activation");
  });
}

}  // namespace

void run(const Context& context, const GluForward& op) {
  constexpr const char* kName = "glu_forward";
  const Tensor &out = op.out, &pre = op.pre;
  const int64_t N = num_rows(out), F = num_columns(out);
  require_multiple(kName, "the feed-forward size of a rank", F, 8);
  require_aligned(kName, {out, pre});
  dispatch_glu(out.dtype(), op.glu, [&](auto type, auto kind) {
    using T = decltype(type);
    const unsigned blocks = grid_size(ceil_div(N * F, kThreads * Vec<T>::kSize));
    glu_forward_kernel<T, kind()>
        <<<blocks, kThreads, 0, context.stream>>>(out.as<T>(), pre.as<const T>(), N * F, F);
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const GluBackward& op) {
  constexpr const char* kName = "glu_backward";
  const Tensor &dpre = op.dpre, &dout = op.dout, &pre = op.pre;
  const int64_t N = num_rows(dout), F = num_columns(dout);
  require_multiple(kName, "the feed-forward size of a rank", F, 8);
  require_aligned(kName, {dpre, dout, pre});
  dispatch_glu(dout.dtype(), op.glu, [&](auto type, auto kind) {
    using T = decltype(type);
    const unsigned blocks = grid_size(ceil_div(N * F, kThreads * Vec<T>::kSize));
    glu_backward_kernel<T, kind()><<<blocks, kThreads, 0, context.stream>>>(
        dpre.as<T>(), dout.as<const T>(), pre.as<const T>(), N * F, F);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
