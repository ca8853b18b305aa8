// Sums have two stages, with a grid fixed by the shape: blocks compute partial sums, then one block
// (per 32 columns) adds them in order.
#include <algorithm>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/pieces.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda_scratch.h"
#include "kernels/operations/reduction.h"

namespace weft::cuda {
namespace {

// A block of 32 x 32 threads owns 32 columns; thread row y adds rows y, y + 32, ...; then row 0
// adds the 32 sums.
__global__ void __launch_bounds__(1024)
    sum_partials_kernel(SumTargets targets, const float* partials, int64_t num_rows, int64_t stride,
                        int64_t num_columns, bool accumulate) {
  __shared__ float shared[32][33];
  const int64_t column = blockIdx.x * 32LL + threadIdx.x;
  float* out = blockIdx.y == 0 ? targets.first : blockIdx.y == 1 ? targets.second : targets.third;
  partials += blockIdx.y * num_columns;
  float total = 0.0F;
  if (column < num_columns) {
#pragma unroll 4
    for (int64_t row = threadIdx.y; row < num_rows; row += 32)
      total += partials[row * stride + column];
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  // The sums are transposed, so that one warp reduces one column.
  total = warp_sum(shared[threadIdx.x][threadIdx.y]);
  const int64_t target = blockIdx.x * 32LL + threadIdx.y;
  if (threadIdx.x == 0 && target < num_columns)
    out[target] = accumulate ? out[target] + total : total;
}

// A block has 32 x 8 threads. A thread adds one piece of columns over every eighth row of the
// block's chunk of rows.
template <typename T, int kSize>
__global__ void column_sums_kernel(float* partials, const T* inp, int64_t N, int64_t O,
                                   int64_t rows_per_chunk) {
  __shared__ float shared[8][32][kSize + 1];
  const int64_t column = (blockIdx.x * 32LL + threadIdx.x) * kSize;
  const int64_t end = min(N, (blockIdx.y + 1) * rows_per_chunk);
  float total[kSize] = {};
  if (column < O) {
#pragma unroll 8
    for (int64_t row = blockIdx.y * rows_per_chunk + threadIdx.y; row < end; row += 8) {
      float values[kSize];
      load_piece(inp + row * O + column, values);
#pragma unroll
      for (int i = 0; i < kSize; ++i) total[i] += values[i];
    }
  }
  for (int i = 0; i < kSize; ++i) shared[threadIdx.y][threadIdx.x][i] = total[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= O) return;
  for (int y = 1; y < 8; ++y) {
    for (int i = 0; i < kSize; ++i) total[i] += shared[y][threadIdx.x][i];
  }
  for (int i = 0; i < kSize; ++i) partials[blockIdx.y * O + column + i] = total[i];
}

constexpr int kSumThreads = 512;

__device__ inline float term(float value, bool square) { return square ? value * value : value; }

__global__ void sum_kernel(float* partials, const float* inp, int64_t n, bool square) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kSumThreads;
  const int64_t num_vecs = n / 4;
  float lanes[4] = {};
#pragma unroll 4
  for (int64_t i = blockIdx.x * static_cast<int64_t>(kSumThreads) + threadIdx.x; i < num_vecs;
       i += stride) {
    float values[4];
    unpack(load_vec(inp + 4 * i), values);
#pragma unroll
    for (int j = 0; j < 4; ++j) lanes[j] += term(values[j], square);
  }
  float total[1] = {(lanes[0] + lanes[1]) + (lanes[2] + lanes[3])};
  if (blockIdx.x == 0 && threadIdx.x < n % 4)
    total[0] += term(inp[4 * num_vecs + threadIdx.x], square);
  block_sum(total);
  if (threadIdx.x == 0) partials[blockIdx.x] = total[0];
}

__global__ void sum_finish_kernel(float* out, const float* partials, int num_partials, float scale,
                                  bool accumulate) {
  float total[1] = {};
  for (int i = threadIdx.x; i < num_partials; i += kSumThreads) total[0] += partials[i];
  block_sum(total);
  if (threadIdx.x == 0) *out = accumulate ? *out + scale * total[0] : scale * total[0];
}

// Block i leaves its two sums at partials[2 * i].
template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    squared_error_kernel(float* partials, const T* value, const T* reference, int64_t n) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kSumThreads;
  const int64_t first = blockIdx.x * static_cast<int64_t>(kSumThreads) + threadIdx.x;
  const int64_t num_vecs = n / kSize;
  float sums[2] = {};
  const auto add = [&](float got, float wanted) {
    const float error = got - wanted;
    sums[0] += error * error;
    sums[1] += wanted * wanted;
  };
#pragma unroll 4
  for (int64_t i = first; i < num_vecs; i += stride) {
    float got[kSize], wanted[kSize];
    unpack(load_vec(value + kSize * i), got);
    unpack(load_vec(reference + kSize * i), wanted);
#pragma unroll
    for (int j = 0; j < kSize; ++j) add(got[j], wanted[j]);
  }
  const int64_t rest = kSize * num_vecs + first;
  if (rest < n) add(static_cast<float>(value[rest]), static_cast<float>(reference[rest]));
  block_sum(sums);
  if (threadIdx.x < 2) partials[2 * blockIdx.x + threadIdx.x] = sums[threadIdx.x];
}

void launch_sum(cudaStream_t stream, float* out, const float* inp, int64_t n, bool square,
                float scale, bool accumulate, void* scratch) {
  const auto blocks = static_cast<unsigned>(
      std::clamp<int64_t>(ceil_div(n, 16 * kSumThreads), 1, kSumScratchBytes / sizeof(float)));
  auto* partials = static_cast<float*>(scratch);
  sum_kernel<<<blocks, kSumThreads, 0, stream>>>(partials, inp, n, square);
  sum_finish_kernel<<<1, kSumThreads, 0, stream>>>(out, partials, static_cast<int>(blocks), scale,
                                                   accumulate);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void sum_partials(cudaStream_t stream, const SumTargets& targets, const float* partials,
                  int64_t num_rows, int64_t stride, int64_t num_columns, bool accumulate) {
  const unsigned num_targets = targets.third != nullptr ? 3 : targets.second != nullptr ? 2 : 1;
  const dim3 grid(grid_size(ceil_div(num_columns, 32)), num_targets);
  sum_partials_kernel<<<grid, dim3(32, 32), 0, stream>>>(targets, partials, num_rows, stride,
                                                         num_columns, accumulate);
  CUDA_CHECK(cudaGetLastError());
}

void column_sums(cudaStream_t stream, float* out, const void* inp, DType x, int64_t N, int64_t O,
                 bool accumulate, void* scratch) {
  auto* partials = static_cast<float*>(scratch);
  const int64_t chunks = num_column_chunks(N, O, num_multiprocessors());
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    choose_piece<T>(O, [&](auto size) {
      const dim3 grid(grid_size(ceil_div(O, 32 * size())), static_cast<unsigned>(chunks));
      column_sums_kernel<T, size()><<<grid, dim3(32, 8), 0, stream>>>(
          partials, static_cast<const T*>(inp), N, O, ceil_div(N, chunks));
    });
  });
  sum_partials(stream, {out}, partials, chunks, O, O, accumulate);
}

void run(const Context& context, const Sum& op) {
  const int64_t n = op.inp.num_elements();
  if (n >= 4) require_aligned("sum", {op.inp});  // fewer are read one by one
  launch_sum(context.stream, op.out.as<float>(), op.inp.as<const float>(), n, false, op.scale,
             op.accumulate, context.scratch("sum", kSumScratchBytes));
}

void run(const Context& context, const SumOfSquares& op) {
  require_aligned("sum_of_squares", {op.inp});
  launch_sum(context.stream, op.out.as<float>(), op.inp.as<const float>(), op.inp.num_elements(),
             true, 1.0F, false, context.scratch("sum_of_squares", kSumScratchBytes));
}

void run(const Context& context, const SquaredError& op) {
  require_aligned("squared_error", {op.value, op.reference});
  auto* partials = static_cast<float*>(context.scratch("squared_error", kSumScratchBytes));
  const int64_t n = op.value.num_elements();
  const int64_t blocks =
      std::clamp<int64_t>(ceil_div(n, 16 * kSumThreads), 1, kSumScratchBytes / (2 * sizeof(float)));
  dispatch(op.value.dtype(), [&](auto type) {
    using T = decltype(type);
    squared_error_kernel<<<static_cast<unsigned>(blocks), kSumThreads, 0, context.stream>>>(
        partials, op.value.as<const T>(), op.reference.as<const T>(), n);
  });
  sum_partials(context.stream, {op.out.as<float>()}, partials, blocks, 2, 2, op.accumulate);
}

}  // namespace weft::cuda
