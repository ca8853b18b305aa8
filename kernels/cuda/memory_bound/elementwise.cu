// Casts, GELU and its derivative, random numbers.
#include "kernels/cuda/memory_bound/device.cuh"
#include "kernels/cuda/memory_bound/gelu.cuh"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline void convert(float* dst, const bf16* src) { *dst = __bfloat162float(*src); }
__device__ inline void convert(bf16* dst, const float* src) { *dst = __float2bfloat16(*src); }

// A thread converts 8 elements, 16 bytes of bf16 and 32 of fp32. The last thread converts the rest
// one by one.
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
    for (int i = 0; i < 8; ++i) convert(&target.v[i], &source.v[i]);
    *reinterpret_cast<Target*>(dst + first) = target;
  } else {
    for (int64_t i = first; i < n; ++i) convert(dst + i, src + i);
  }
}

template <typename T, bool kBackward>
__global__ void gelu_kernel(T* out, const T* pre, int64_t n, Gelu gelu) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t first = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * kSize;
  if (first >= n) return;
  float values[kSize], gradients[kSize];
  unpack(load_vec(pre + first), values);
  if (kBackward) unpack(load_vec(out + first), gradients);
#pragma unroll
  for (int i = 0; i < kSize; ++i)
    values[i] =
        kBackward ? gradients[i] * gelu_derivative(values[i], gelu) : gelu_value(values[i], gelu);
  store_vec(out + first, pack(values));
}

template <bool kBackward>
void launch_gelu(cudaStream_t stream, void* out, const void* pre, DType x, int64_t n, Gelu gelu) {
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    const unsigned blocks = grid_size(ceil_div(n, kThreads * Vec<T>::kSize));
    gelu_kernel<T, kBackward><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(out),
                                                               static_cast<const T*>(pre), n, gelu);
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

void cast(cudaStream_t stream, void* dst, DType dst_type, const void* src, DType src_type,
          int64_t n) {
  const unsigned blocks = grid_size(ceil_div(n, kThreads * 8));
  if (dst_type == DType::kBFloat16 && src_type == DType::kFloat32) {
    cast_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<bf16*>(dst),
                                                 static_cast<const float*>(src), n);
  } else if (dst_type == DType::kFloat32 && src_type == DType::kBFloat16) {
    cast_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<float*>(dst),
                                                 static_cast<const bf16*>(src), n);
  } else {
    throw std::invalid_argument("cast: only between float32 and bfloat16");
  }
  CUDA_CHECK(cudaGetLastError());
}

void gelu_forward(cudaStream_t stream, void* out, const void* pre, DType x, int64_t n, Gelu gelu) {
  launch_gelu<false>(stream, out, pre, x, n, gelu);
}

void gelu_backward(cudaStream_t stream, void* dpre, const void* pre, DType x, int64_t n,
                   Gelu gelu) {
  launch_gelu<true>(stream, dpre, pre, x, n, gelu);
}

}  // namespace weft::cuda
