// LayerNorm and RMSNorm of fp32 rows, and their backward. An RMSNorm is a LayerNorm whose mean is
// 0, and through which therefore no gradient passes.
#pragma once

#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft::cpu {

float mean_of(const float* inp, int64_t n);
float variance_of(const float* inp, float mean, int64_t n);
void normalise(float* out, const float* inp, float mean, float rstd, const float* weight,
               const float* bias, int64_t n);
void normalise_by_rms(float* out, const float* inp, float rstd, const float* weight, int64_t n);
// With w = weight * dnormed and y = (inp - mean) * rstd:
//   dinp = rstd * (w - mean(w) - y * mean(w * y))
// where mean(w) is 0 unless the norm subtracts its mean.
void normalise_backward(float* dinp, const float* dnormed, const float* inp, float mean, float rstd,
                        const float* weight, bool subtracts_mean, int64_t n);
// Adds a row's part of the gradients of weight and bias.
void add_parameter_gradient(double* dweight, double* dbias, const float* dnormed, const float* inp,
                            float mean, float rstd, int64_t n);
// Returns weight + offset of n columns: the tensor's own memory, or `buffer`.
const float* read_norm_weight(const Tensor& weight, float offset, int64_t n, float* buffer);

}  // namespace weft::cpu
