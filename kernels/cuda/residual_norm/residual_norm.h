// The scratch of the residual norm, whose operations are cuda::run() of kernels/operations/residual_norm.h.
#pragma once

#include "kernels/numbers/tensor.h"

namespace weft::cuda {

// C is a multiple of 8 and `r` the type of the residual stream. With document_bounds the scratch must also
// suffice for embedding_backward.
int64_t residual_norm_backward_scratch_bytes(int64_t N, int64_t C, DType r);

}  // namespace weft::cuda
