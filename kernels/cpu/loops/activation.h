// Activations and their derivatives on fp32 rows. [Hendrycks & Gimpel 2016, arXiv:1606.08415]
#pragma once

#include <cstdint>

#include "kernels/cpu/loops/simd.h"
#include "kernels/operations/activation.h"

namespace weft::cpu {

inline float sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

// out[i] = activation(pre[i]); out may be pre.
void activate_row(float* out, const float* pre, int64_t n, Activation activation);
// gradient[i] *= activation'(pre[i])
void activate_backward_row(float* gradient, const float* pre, int64_t n, Activation activation);

}  // namespace weft::cpu
