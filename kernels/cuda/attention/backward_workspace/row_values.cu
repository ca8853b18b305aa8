#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/cuda/attention/backward_workspace/row_values.h"
#include "kernels/cuda/attention/backward_workspace/semaphores.cuh"
#include "kernels/cuda/device/numbers.cuh"

namespace weft::cuda::attention {

namespace {

// Computes lse2 and delta; rows from T on get the padding's values. A row is spread over 8 lanes of
// 16 bytes each: this kernel is bound by memory. It also sets the counters of semaphores.cuh to 0.
template <typename Element>
__global__ void attention_backward_rows_kernel(const Params p) {
  const int64_t padded = padded_length(p.T);
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 8;
  const int lane = threadIdx.x & 7;
  if (row * 8 + lane < p.num_semaphores) p.semaphores[row * 8 + lane] = 0;
  const int64_t bh = row / padded, t = row % padded;
  const bool valid = bh < static_cast<int64_t>(p.B) * p.H && t < p.T;
  const int64_t b = bh / p.H, h = bh % p.H;
  const int64_t offset = valid ? ((b * p.T + t) * p.H + h) * p.head_size : 0;
  const Element* out = static_cast<const Element*>(p.out_in) + offset;
  const Element* dout = static_cast<const Element*>(p.dout) + offset;
  float sum = 0;
  for (int d = lane * 8; d < p.head_size; d += 64) {
    sum += dot<Element>(*reinterpret_cast<const uint4*>(out + d),
                        *reinterpret_cast<const uint4*>(dout + d));
  }
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  if (lane == 0 && bh < static_cast<int64_t>(p.B) * p.H) {
    p.lse2[row] = valid ? p.lse[bh * p.T + t] * kLog2E : INFINITY;
    p.delta[row] = valid ? sum : 0;
  }
}

constexpr int kSumRows = kTileKeys;  // A block sums dO over so many queries of a head.
static_assert(kRowPadding % kSumRows == 0);

// Computes lse2 and delta as attention_backward_rows_kernel does, and a block's sums of dO. Eight
// lanes read a row.
template <typename Element>
__global__ void __launch_bounds__(256) attention_backward_rows_and_sums_kernel(const Params p) {
  using Pair = std::conditional_t<kIsFp16<Element>, __half2, __nv_bfloat162>;
  __shared__ float of_warps[8][128];
  const int64_t padded = padded_length(p.T);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kSumRows;
  const int64_t bh = first_row / padded;
  const int first_t = static_cast<int>(first_row % padded);
  const int64_t b = bh / p.H, h = bh % p.H;
  const int lane = threadIdx.x & 7, warp = threadIdx.x / 32;
  for (int64_t i = blockIdx.x * 256LL + threadIdx.x; i < p.num_semaphores; i += gridDim.x * 256LL)
    p.semaphores[i] = 0;
  float columns[2][8] = {};
#pragma unroll
  for (int pass = 0; pass < kSumRows / 32; ++pass) {
    const int t = first_t + pass * 32 + static_cast<int>(threadIdx.x) / 8;
    const bool valid = t < p.T;
    const int64_t offset = valid ? ((b * p.T + t) * p.H + h) * p.head_size : 0;
    const Element* out = static_cast<const Element*>(p.out_in) + offset;
    const Element* dout = static_cast<const Element*>(p.dout) + offset;
    float sum = 0;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int d = part * 64 + lane * 8;
      if (d < p.head_size && valid) {
        const uint4 gradients = *reinterpret_cast<const uint4*>(dout + d);
        sum += dot<Element>(*reinterpret_cast<const uint4*>(out + d), gradients);
        const auto* pairs = reinterpret_cast<const Pair*>(&gradients);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 values = widen(pairs[i]);
          columns[part][2 * i] += values.x;
          columns[part][2 * i + 1] += values.y;
        }
      }
    }
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    if (lane == 0) {
      const int64_t row = first_row + pass * 32 + static_cast<int>(threadIdx.x) / 8;
      p.lse2[row] = valid ? p.lse[bh * p.T + t] * kLog2E : INFINITY;
      p.delta[row] = valid ? sum : 0;
    }
  }
  if (first_t >= p.T) return;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    if (part * 64 >= p.head_size) break;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& column = columns[part][i];
      column += __shfl_xor_sync(0xFFFFFFFFu, column, 8);
      column += __shfl_xor_sync(0xFFFFFFFFu, column, 16);
      if ((threadIdx.x & 31) < 8) of_warps[warp][part * 64 + lane * 8 + i] = column;
    }
  }
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= p.head_size) return;
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += of_warps[i][column];
  p.bias.values(static_cast<int>(b), first_t / kSumRows, p.H, static_cast<int>(h))[column] = sum;
}

void backward_rows_with_sums(cudaStream_t stream, const Params& params, DType x) {
  const auto num_blocks =
      static_cast<unsigned>(padded_length(params.T) / kSumRows * params.B * params.H);
  if (x == DType::kFloat16) {
    attention_backward_rows_and_sums_kernel<__half><<<num_blocks, 256, 0, stream>>>(params);
  } else {
    attention_backward_rows_and_sums_kernel<__nv_bfloat16><<<num_blocks, 256, 0, stream>>>(params);
  }
  check_launch("attention_backward_rows_and_sums_kernel");
}

}  // namespace

void backward_rows(cudaStream_t stream, const Params& params, DType x) {
  if (params.bias.values_from_dout) return backward_rows_with_sums(stream, params, x);
  const int64_t num_rows = padded_length(params.T) * params.B * params.H;
  const auto kernel = x == DType::kFloat16 ? attention_backward_rows_kernel<__half>
                                           : attention_backward_rows_kernel<__nv_bfloat16>;
  kernel<<<static_cast<unsigned>((num_rows + 31) / 32), 256, 0, stream>>>(params);
  check_launch("attention_backward_rows_kernel");
}

}  // namespace weft::cuda::attention
