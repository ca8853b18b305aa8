// From the arguments of an operation to the parameters of kernels.
#pragma once

#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/operations/attention.h"

namespace weft::cuda::attention {

// Return the parameters that come from the arguments alone. They throw std::invalid_argument where
// indices of blocks would overflow.
Params params_of(const AttentionForward& op);
Params params_of(const AttentionBackward& op);

}  // namespace weft::cuda::attention
