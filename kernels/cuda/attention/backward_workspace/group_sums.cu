#include "kernels/cuda/attention/backward_workspace/group_sums.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/pieces.cuh"

namespace weft::cuda::attention {
namespace {

constexpr int kThreads = 256;

// A thread has a piece of a sum. Neighbours have neighbouring pieces of a vector, then of a token.
template <typename T, int kSize>
__global__ void sum_groups_kernel(const HeadVectors sums, const HeadVectors inp,
                                  int64_t num_pieces) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= num_pieces) return;
  const int64_t pieces_per_head = sums.D / kSize, d = index % pieces_per_head * kSize;
  const int64_t vector = index / pieces_per_head, group = vector % sums.H;
  const int64_t t = vector / sums.H % sums.T, b = vector / sums.H / sums.T;
  const int64_t size = inp.H / sums.H;
  float total[kSize] = {};
  for (int64_t head = group * size; head < (group + 1) * size; ++head) {
    float values[kSize];
    load_piece(static_cast<const T*>(inp.data) + inp.element(b, t, head) + d, values);
#pragma unroll
    for (int i = 0; i < kSize; ++i) total[i] += values[i];
  }
  store_piece(static_cast<T*>(sums.data) + sums.element(b, t, group) + d, total);
}

}  // namespace

void sum_groups(cudaStream_t stream, const HeadVectors& sums, const HeadVectors& inp) {
  dispatch(sums.dtype, [&](auto type) {
    using T = decltype(type);
    choose_piece<T>(sums.D, [&](auto size) {
      const int64_t num_pieces = sums.B * sums.T * sums.H * sums.D / size();
      sum_groups_kernel<T, size()>
          <<<grid_size(ceil_div(num_pieces, kThreads)), kThreads, 0, stream>>>(sums, inp,
                                                                               num_pieces);
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda::attention
