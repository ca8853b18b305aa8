// From the arguments of an operation to the parameters of kernels.
#pragma once

#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/numbers/tensor.h"
#include "kernels/operations/attention.h"

namespace weft::cuda::attention {

// Returns the parameters that forward and backward have in common. Throws std::invalid_argument
// where indices of blocks would overflow.
Params common_params(const Tensor& qkv, const Tensor& document_bounds, const Tensor& slopes,
                     const Heads& heads, float scale, const Dropout& dropout);

}  // namespace weft::cuda::attention
