#include "kernels/cpu/loops/norm.h"

#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"

namespace weft::cpu {

WEFT_VECTOR_CLONES float mean_of(const float* inp, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += inp[i];
  return sum / static_cast<float>(n);
}

WEFT_VECTOR_CLONES float variance_of(const float* inp, float mean, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += (inp[i] - mean) * (inp[i] - mean);
  return sum / static_cast<float>(n);
}

WEFT_VECTOR_CLONES void normalise(float* out, const float* inp, float mean, float rstd,
                                  const float* weight, const float* bias, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = (inp[i] - mean) * rstd * weight[i] + bias[i];
}

WEFT_VECTOR_CLONES void normalise_by_rms(float* out, const float* inp, float rstd,
                                         const float* weight, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = inp[i] * rstd * weight[i];
}

WEFT_VECTOR_CLONES void normalise_backward(float* dinp, const float* dnormed, const float* inp,
                                           float mean, float rstd, const float* weight,
                                           bool subtracts_mean, int64_t n) {
  float sum_w = 0, sum_wy = 0;
#pragma omp simd reduction(+ : sum_w, sum_wy)
  for (int64_t i = 0; i < n; ++i) {
    const float w = weight[i] * dnormed[i];
    sum_w += w;
    sum_wy += w * (inp[i] - mean) * rstd;
  }
  const float mean_w = subtracts_mean ? sum_w / static_cast<float>(n) : 0.0F;
  const float mean_wy = sum_wy / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float w = weight[i] * dnormed[i];
    dinp[i] = rstd * (w - mean_w - (inp[i] - mean) * rstd * mean_wy);
  }
}

WEFT_VECTOR_CLONES void add_parameter_gradient(double* dweight, double* dbias, const float* dnormed,
                                               const float* inp, float mean, float rstd,
                                               int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dweight[i] += static_cast<double>(dnormed[i] * (inp[i] - mean) * rstd);
    dbias[i] += static_cast<double>(dnormed[i]);
  }
}

const float* read_norm_weight(const Tensor& weight, float offset, int64_t n, float* buffer) {
  const float* stored = read_row(weight, 0, n, buffer);
  if (offset == 0) return stored;
  for (int64_t i = 0; i < n; ++i) buffer[i] = stored[i] + offset;
  return buffer;
}

}  // namespace weft::cpu
