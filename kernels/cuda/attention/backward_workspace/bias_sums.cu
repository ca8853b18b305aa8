#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/cuda/attention/backward_workspace/bias_sums.h"
#include "kernels/cuda/attention/backward_workspace/semaphores.cuh"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda_scratch.h"

namespace weft::cuda {
namespace attention {
namespace {

// Rows of partial sums: column d of head h is at h * head_stride + d, and rows are H * head_stride
// apart.
struct Partials {
  const float* data;
  int num_rows, head_stride;
};

// A block of 32 x 32 threads adds 32 columns of partial sums to out (H,3,D), as sum_partials does:
// those of queries where blockIdx.y is 0, else those of values. The sums of keys are 0.
__global__ void __launch_bounds__(1024)
    attention_bias_sums_kernel(float* out, int H, int D, const Partials of_queries,
                               const Partials of_values, bool accumulate) {
  __shared__ float shared[32][33];
  const bool queries = blockIdx.y == 0;
  const Partials& partials = queries ? of_queries : of_values;
  const int num_columns = H * D, column = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  float total = 0;
  if (column < num_columns) {
    const float* first = partials.data + column / D * partials.head_stride + column % D;
    const int64_t stride = static_cast<int64_t>(H) * partials.head_stride;
#pragma unroll 8
    for (int row = static_cast<int>(threadIdx.y); row < partials.num_rows; row += 32)
      total += first[row * stride];
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  total = warp_sum(shared[threadIdx.x][threadIdx.y]);
  const int target = static_cast<int>(blockIdx.x * 32 + threadIdx.y);
  if (threadIdx.x != 0 || target >= num_columns) return;
  float* of_head = out + static_cast<int64_t>(target / D) * 3 * D + target % D;
  float& sum = of_head[queries ? 0 : 2 * D];
  sum = accumulate ? sum + total : total;
  if (queries && !accumulate) of_head[D] = 0;
}

void add_partials(cudaStream_t stream, const Tensor& out, int H, int D, const Partials& of_queries,
                  const Partials& of_values, bool accumulate) {
  const unsigned num_blocks = static_cast<unsigned>((H * D + 31) / 32);
  attention_bias_sums_kernel<<<dim3(num_blocks, 2), dim3(32, 32), 0, stream>>>(
      out.as<float>(), H, D, of_queries, of_values, accumulate);
  check_launch("attention_bias_sums_kernel");
}

}  // namespace

BiasSums bias_sums(const Params& params, int64_t columns, bool dropout, float* memory) {
  const int num_tiles = static_cast<int>(num_key_tiles(params.T));
  BiasSums sums;
  sums.columns = static_cast<int>(columns);
  sums.query_rows = params.document_bounds != nullptr ? num_tiles : 1;
  sums.value_rows = dropout ? 2 * num_tiles : num_tiles;
  sums.values_from_dout = !dropout;
  sums.of_queries = memory;
  sums.of_values =
      memory + static_cast<int64_t>(params.B) * sums.query_rows * params.H * sums.columns;
  return sums;
}

void add_bias_sums(cudaStream_t stream, const Tensor& out, const Params& params, bool accumulate) {
  const BiasSums& sums = params.bias;
  add_partials(stream, out, params.H, params.head_size,
               {sums.of_queries, params.B * sums.query_rows, sums.columns},
               {sums.of_values, params.B * sums.value_rows, sums.columns}, accumulate);
}

}  // namespace attention

// The sums of keys, which are rounding alone, are left out.
void sum_dqkv(cudaStream_t stream, const AttentionBackward& args, void* scratch) {
  const Tensor dqkv = packed_tensor(args.dqkv);
  const int64_t H = dqkv.shape(2), D = dqkv.shape(4);
  auto* const row = static_cast<float*>(scratch);
  column_sums(stream, row, dqkv.data(), dqkv.dtype(), dqkv.shape(0) * dqkv.shape(1), H * 3 * D,
              /*accumulate=*/false, static_cast<char*>(scratch) + dqkv_row_bytes(H, D));
  const int stride = static_cast<int>(3 * D);
  attention::add_partials(stream, args.dqkv_bias, static_cast<int>(H), static_cast<int>(D),
                          {row, 1, stride}, {row + 2 * D, 1, stride}, args.accumulate);
}

}  // namespace weft::cuda
