// GELU and its derivative over rows [Hendrycks & Gimpel 2016, arXiv:1606.08415].
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace weft::cpu {

// out[i] = gelu(pre[i]); out may be pre.
void gelu_row(float* out, const float* pre, int64_t n, Gelu gelu);
// gradient[i] *= gelu'(pre[i])
void gelu_backward_row(float* gradient, const float* pre, int64_t n, Gelu gelu);

}  // namespace weft::cpu
