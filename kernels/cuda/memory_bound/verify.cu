// A check of matrix products needs operands whose sums are exact, and a comparison to the bit.
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;  // threads go on with what lies beyond

unsigned num_blocks(int64_t n) {
  return static_cast<unsigned>(std::min((n + kThreads - 1) / kThreads, kMaxBlocks));
}

template <typename T>
__global__ void fill_kernel(T* data, int64_t n, int range, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * kThreads * 4;
  for (int64_t first = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * 4; first < n;
       first += stride) {
    const PhiloxBlock block = philox(seed, 0, static_cast<uint64_t>(first));
    for (int i = 0; i < 4 && first + i < n; ++i) {
      const auto number = static_cast<int>(block.word[i] % static_cast<uint32_t>(2 * range + 1));
      data[first + i] = static_cast<T>(static_cast<float>(number - range));
    }
  }
}

__global__ void count_kernel(unsigned long long* count, const uint32_t* a, const uint32_t* b,
                             int64_t n) {
  unsigned differences = 0;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < n; i += stride)
    differences += a[i] != b[i] ? 1 : 0;
  differences = __reduce_add_sync(~0U, differences);
  if (threadIdx.x % 32 == 0 && differences != 0) atomicAdd(count, differences);
}

}  // namespace

void fill_whole_numbers(cudaStream_t stream, void* data, DType type, int64_t n, int range,
                        uint64_t seed) {
  if (n == 0) return;
  dispatch(type, [&](auto t) {
    using T = decltype(t);
    fill_kernel<T>
        <<<num_blocks(n / 4 + 1), kThreads, 0, stream>>>(static_cast<T*>(data), n, range, seed);
  });
  CUDA_CHECK(cudaGetLastError());
}

void count_different_words(cudaStream_t stream, uint64_t* count, const void* a, const void* b,
                           int64_t num_bytes) {
  if (num_bytes == 0) return;
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  count_kernel<<<num_blocks(num_bytes / 4), kThreads, 0, stream>>>(
      reinterpret_cast<unsigned long long*>(count), static_cast<const uint32_t*>(a),
      static_cast<const uint32_t*>(b), num_bytes / 4);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
