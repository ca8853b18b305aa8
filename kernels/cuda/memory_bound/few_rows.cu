// Products of a few rows with a weight, whose time is that of reading the weight: a warp has a row
// of it, and all rows of the input.
#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kAhead = 4;  // 16 bytes of the weight that a lane loads before it computes

template <typename T, int kRows>
__global__ void __launch_bounds__(32 * kWarps)
    few_rows_kernel(T* activated_out, T* out, const T* inp, const T* weight, const T* bias,
                    int64_t O, int64_t I, Activation activation) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t o = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (o >= O) return;
  const int lane = threadIdx.x % 32, num_pieces = static_cast<int>(I / kSize);
  const T* row = weight + o * I;
  float sums[kRows] = {};
  for (int first = lane; first < num_pieces; first += 32 * kAhead) {
    Vec<T> pieces[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int piece = first + 32 * a;
      pieces[a] = piece < num_pieces ? load_vec(row + piece * kSize) : Vec<T>{};
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int piece = first + 32 * a;
      if (piece >= num_pieces) break;
      float weights[kSize];
      unpack(pieces[a], weights);
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        float values[kSize];
        unpack(load_vec(inp + n * I + piece * kSize), values);
#pragma unroll
        for (int j = 0; j < kSize; ++j) sums[n] += weights[j] * values[j];
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const float sum = warp_sum(sums[n]);
    if (lane != 0) continue;
    const T value = T(sum + (bias == nullptr ? 0.0F : static_cast<float>(bias[o])));
    out[n * O + o] = value;
    if (activated_out != nullptr)
      activated_out[n * O + o] = T(activation_value<T>(static_cast<float>(value), activation));
  }
}

}  // namespace

bool has_few_rows(int64_t num_rows, int64_t num_inputs) {
  return num_rows <= 4 && num_inputs % 8 == 0;
}

void few_rows_product(cudaStream_t stream, const FewRowsProduct& op) {
  const unsigned blocks = grid_size(ceil_div(op.num_outputs, kWarps));
  dispatch(op.dtype, [&](auto type) {
    using T = decltype(type);
    // `rows` is a type whose value is the number of rows.
    const auto launch = [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      few_rows_kernel<T, kRows><<<blocks, 32 * kWarps, 0, stream>>>(
          static_cast<T*>(op.activated_out), static_cast<T*>(op.out), static_cast<const T*>(op.inp),
          static_cast<const T*>(op.weight), static_cast<const T*>(op.bias), op.num_outputs,
          op.num_inputs, op.activation);
    };
    if (op.num_rows == 1) return launch(std::integral_constant<int, 1>{});
    if (op.num_rows == 2) return launch(std::integral_constant<int, 2>{});
    if (op.num_rows == 3) return launch(std::integral_constant<int, 3>{});
    launch(std::integral_constant<int, 4>{});
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
