// Forward and backward of the residual norm share this.
//
// R is the type of the residual stream and X the model's: R is X, or float beside an X of 16 bits.
// The vectors of a row are those of R. Where X is smaller its vectors have as many numbers, in 8
// bytes.
#pragma once

#include "kernels/cuda/device/device.cuh"
#include "kernels/operations/residual_norm.h"

namespace weft::cuda {

// The numbers of the model that lie beside a vector of the stream.
template <typename R, typename X>
using VecBeside = Vec<X, Vec<R>::kSize>;

// Calls function(R{}, X{}) with the C++ types of the stream and the model.
template <typename Function>
void dispatch_stream(DType r, DType x, Function function) {
  dispatch(x, [&](auto model) {
    using X = decltype(model);
    if constexpr (!std::is_same_v<X, float>) {
      if (r == DType::kFloat32) return function(float{}, model);
    }
    function(X{}, model);
  });
}

// Backward of the sum alone, without a norm: dresidual = dresidual_in, dbranch = dropout'(it).
void residual_sum_backward(cudaStream_t stream, const ResidualNormBackward& args);
// The gradient of a bias whose rows repeat (the positions): row n of `dbranch` (N,C) is added to
// row (first_row + n) % bias_period of dbranch_bias (S,C).
void periodic_bias_backward(cudaStream_t stream, const ResidualNormBackward& args,
                            const Tensor& dbranch);

}  // namespace weft::cuda
