// Casts, activations and their derivatives, random numbers.
#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/operations/activation.h"
#include "kernels/operations/memory.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// A thread converts 8 elements, 16 bytes of a 16-bit type and 32 of fp32. The last thread converts
// the rest one by one.
template <typename Dst, typename Src>
__global__ void cast_kernel(Dst* dst, const Src* src, int64_t n) {
  const int64_t first = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * 8;
  if (first + 8 <= n) {
    struct alignas(sizeof(Src) * 8 > 16 ? 16 : sizeof(Src) * 8) Source {
      Src v[8];
    };
    struct alignas(16) Target {
      Dst v[8];
    };
    const Source source = *reinterpret_cast<const Source*>(src + first);
    Target target;
#pragma unroll
    for (int i = 0; i < 8; ++i) target.v[i] = static_cast<Dst>(source.v[i]);
    *reinterpret_cast<Target*>(dst + first) = target;
  } else {
    for (int64_t i = first; i < n; ++i) dst[i] = static_cast<Dst>(src[i]);
  }
}

template <typename T, bool kBackward>
__global__ void activation_kernel(T* out, const T* pre, int64_t n, Activation activation) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t first = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * kSize;
  if (first >= n) return;
  float values[kSize], gradients[kSize];
  unpack(load_vec(pre + first), values);
  if (kBackward) unpack(load_vec(out + first), gradients);
#pragma unroll
  for (int i = 0; i < kSize; ++i)
    values[i] = kBackward ? gradients[i] * activation_derivative<T>(values[i], activation)
                          : activation_value<T>(values[i], activation);
  store_vec(out + first, pack<T>(values));
}

template <bool kBackward>
void launch_activation(cudaStream_t stream, void* out, const void* pre, DType x, int64_t n,
                       Activation activation) {
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    const unsigned blocks = grid_size(ceil_div(n, kThreads * Vec<T>::kSize));
    activation_kernel<T, kBackward><<<blocks, kThreads, 0, stream>>>(
        static_cast<T*>(out), static_cast<const T*>(pre), n, activation);
  });
  CUDA_CHECK(cudaGetLastError());
}

// A thread makes the four numbers of a Philox block.
template <typename T>
__global__ void fill_random_kernel(T* data, int64_t n) {
  const int64_t first = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * 4;
  const PhiloxBlock block = philox(1, 1, static_cast<uint64_t>(first));
  for (int i = 0; i < 4 && first + i < n; ++i) {
    data[first + i] =
        static_cast<T>(static_cast<float>(static_cast<int32_t>(block.word[i])) * 0x1p-31F);
  }
}

}  // namespace

void fill_random(cudaStream_t stream, void* data, DType type, int64_t n) {
  if (n == 0) return;
  dispatch(type, [&](auto t) {
    using T = decltype(t);
    fill_random_kernel<T>
        <<<grid_size(ceil_div(n, 4 * kThreads)), kThreads, 0, stream>>>(static_cast<T*>(data), n);
  });
  CUDA_CHECK(cudaGetLastError());
}

void activation_backward(cudaStream_t stream, void* dpre, const void* pre, DType x, int64_t n,
                         Activation activation) {
  launch_activation<true>(stream, dpre, pre, x, n, activation);
}

void run(const Context& context, const Zero& op) {
  CUDA_CHECK(
      cudaMemsetAsync(op.out.data(), 0, static_cast<size_t>(op.out.num_bytes()), context.stream));
}

void run(const Context& context, const Cast& op) {
  const Tensor &dst = op.dst, &src = op.src;
  if (dst.dtype() == src.dtype()) {
    CUDA_CHECK(cudaMemcpyAsync(dst.data(), src.data(), static_cast<size_t>(src.num_bytes()),
                               cudaMemcpyDefault, context.stream));
    return;
  }
  require_aligned("cast", {dst, src});
  const int64_t n = src.num_elements();
  const unsigned blocks = grid_size(ceil_div(n, kThreads * 8));
  const bool narrows = src.dtype() == DType::kFloat32;
  dispatch(narrows ? dst.dtype() : src.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (sizeof(T) == 2) {
      if (narrows) {
        cast_kernel<<<blocks, kThreads, 0, context.stream>>>(dst.as<T>(), src.as<const float>(), n);
      } else {
        cast_kernel<<<blocks, kThreads, 0, context.stream>>>(dst.as<float>(), src.as<const T>(), n);
      }
    }
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const ActivationForward& op) {
  constexpr const char* kName = "gelu_forward";
  require_multiple(kName, "the feed-forward size of a rank", num_columns(op.out), 8);
  require_aligned(kName, {op.out, op.pre});
  launch_activation<false>(context.stream, op.out.data(), op.pre.data(), op.out.dtype(),
                           op.out.num_elements(), op.activation);
}

}  // namespace weft::cuda
