// Backward of the residual stream where no norm follows, and of biases whose rows repeat.
#include "kernels/cuda/residual_norm/residual_norm.cuh"

namespace weft::cuda {
namespace {

// The backward of the sum alone: dbranch = dropout'(dresidual_in), one vector per thread.
template <typename R, typename X>
__global__ void dropout_backward_kernel(X* dbranch, const R* dresidual_in, int64_t num_vecs,
                                        DropoutMask mask) {
  constexpr int kSize = Vec<R>::kSize;
  const int64_t first = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * kSize;
  if (first >= num_vecs * kSize) return;
  float values[kSize];
  unpack(load_vec(dresidual_in + first), values);
  if (mask.threshold != 0) apply_mask(mask, first, values);
  store_vec(dbranch + first, pack<X>(values));
}

// Adds row n of dbranch (N,C) to row (first_row + n) % period of dbias (S,C). One thread per vector
// of a row of dbias adds in order of n.
template <typename T>
__global__ void periodic_sums_kernel(float* dbias, const T* dbranch, int64_t N, int64_t C,
                                     int64_t S, int64_t period, int64_t first_row,
                                     bool accumulate) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t vecs_per_row = C / kSize;
  const int64_t index = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (index >= S * vecs_per_row) return;
  const int64_t row = index / vecs_per_row;
  const int64_t column = (index - row * vecs_per_row) * kSize;
  float* target = dbias + row * C + column;
  float total[kSize];
#pragma unroll
  for (int j = 0; j < kSize; ++j) total[j] = accumulate ? target[j] : 0.0F;
  if (row < period) {
    const int64_t skip = (row - first_row % period + period) % period;
#pragma unroll 8
    for (int64_t n = skip; n < N; n += period) {
      float values[kSize];
      unpack(load_vec(dbranch + n * C + column), values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) total[j] += values[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kSize; ++j) target[j] = total[j];
}

}  // namespace

void residual_sum_backward(cudaStream_t stream, const ResidualNormBackward& args) {
  const Tensor& dresidual = args.dresidual;
  if (dresidual.data() != args.dresidual_in.data()) {
    CUDA_CHECK(cudaMemcpyAsync(dresidual.data(), args.dresidual_in.data(),
                               static_cast<size_t>(dresidual.num_bytes()), cudaMemcpyDeviceToDevice,
                               stream));
  }
  if (!args.dbranch) return;
  dispatch_stream(dresidual.dtype(), args.dbranch.dtype(), [&](auto of_stream, auto of_model) {
    using R = decltype(of_stream);
    using X = decltype(of_model);
    const int64_t num_vecs = dresidual.num_elements() / Vec<R>::kSize;
    dropout_backward_kernel<R, X><<<grid_size(ceil_div(num_vecs, 256)), 256, 0, stream>>>(
        args.dbranch.as<X>(), args.dresidual_in.as<const R>(), num_vecs, make_mask(args.dropout));
  });
  CUDA_CHECK(cudaGetLastError());
}

void periodic_bias_backward(cudaStream_t stream, const ResidualNormBackward& args,
                            const Tensor& dbranch) {
  const int64_t N = num_rows(dbranch), C = num_columns(dbranch), S = num_rows(args.dbranch_bias);
  dispatch(dbranch.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t num_vecs = S * C / Vec<T>::kSize;
    periodic_sums_kernel<T><<<grid_size(ceil_div(num_vecs, 256)), 256, 0, stream>>>(
        args.dbranch_bias.as<float>(), dbranch.as<const T>(), N, C, S, args.bias_period,
        args.first_row, args.accumulate);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
