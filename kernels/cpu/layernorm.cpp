// LayerNorm with the residual addition before it, forward and backward.
// [Ba et al. 2016, arXiv:1607.06450]
#include <algorithm>

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 16;        // rows per task
constexpr int64_t kColumnBlock = 64;  // columns per task of the parameter gradients

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

// With w = weight * dnormed and y = (inp - mean) * rstd:
//   dinp = rstd * (w - mean(w) - y * mean(w * y))
WEFT_VECTOR_CLONES void normalise_backward(float* dinp, const float* dnormed, const float* inp,
                                           float mean, float rstd, const float* weight, int64_t n) {
  float sum_w = 0, sum_wy = 0;
#pragma omp simd reduction(+ : sum_w, sum_wy)
  for (int64_t i = 0; i < n; ++i) {
    const float w = weight[i] * dnormed[i];
    sum_w += w;
    sum_wy += w * (inp[i] - mean) * rstd;
  }
  const float mean_w = sum_w / static_cast<float>(n), mean_wy = sum_wy / static_cast<float>(n);
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

// One task owns a block of columns and walks all rows in order.
void parameter_gradients(const Context& context, Tensor dweight, Tensor dbias, Tensor dnormed,
                         Tensor inp, Tensor mean, Tensor rstd, bool accumulate) {
  const int64_t C = dweight.num_elements(), N = inp.num_elements() / C;
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    const int64_t width = end - begin;
    float* buffer = context.scratch(thread);
    double dw[kColumnBlock] = {}, db[kColumnBlock] = {};
    for (int64_t n = 0; n < N; ++n) {
      add_parameter_gradient(dw, db, read_row(dnormed, n * C + begin, width, buffer),
                             read_row(inp, n * C + begin, width, buffer + kColumnBlock),
                             mean.as<float>()[n], rstd.as<float>()[n], width);
    }
    for (int64_t i = 0; i < width; ++i) {
      float& dweight_i = dweight.as<float>()[begin + i];
      float& dbias_i = dbias.as<float>()[begin + i];
      dweight_i = static_cast<float>(dw[i]) + (accumulate ? dweight_i : 0.0F);
      dbias_i = static_cast<float>(db[i]) + (accumulate ? dbias_i : 0.0F);
    }
  });
}

}  // namespace

int64_t layernorm_scratch_floats(int64_t C) { return 5 * std::max(C, kColumnBlock); }

void layernorm_forward(const Context& context, Tensor normed, Tensor residual_out, Tensor mean,
                       Tensor rstd, Tensor residual, Tensor branch, Tensor weight, Tensor bias,
                       float epsilon, const Dropout& dropout) {
  const int64_t C = weight.num_elements(), N = residual.num_elements() / C;
  context.need_scratch("layernorm_forward", layernorm_scratch_floats(C));
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    const float* w = read_row(weight, 0, C, buffer);
    const float* b = read_row(bias, 0, C, buffer + C);
    for (int64_t n = begin; n < end; ++n) {
      const float* inp = read_row(residual, n * C, C, buffer + 2 * C);
      if (branch) {
        const float* added = read_row(branch, n * C, C, buffer + 3 * C);
        if (dropout.p > 0) {
          dropout_multipliers(buffer + 4 * C, dropout, n * C, C);
          multiply_row(buffer + 4 * C, added, C);
          added = buffer + 4 * C;
        }
        float* sum = row_target(residual_out, n * C, buffer + 2 * C);
        add_rows(sum, inp, added, C);
        store_row(residual_out, n * C, C, sum);
        // Normalises the sum as it was stored, because backward will read that one.
        inp = read_row(residual_out, n * C, C, buffer + 2 * C);
      }
      const float m = mean_of(inp, C);
      const float r = 1.0F / std::sqrt(variance_of(inp, m, C) + epsilon);
      mean.as<float>()[n] = m;
      rstd.as<float>()[n] = r;
      float* out = row_target(normed, n * C, buffer + 3 * C);
      normalise(out, inp, m, r, w, b, C);
      store_row(normed, n * C, C, out);
    }
  });
}

void layernorm_backward(const Context& context, Tensor dresidual, Tensor dbranch, Tensor dweight,
                        Tensor dbias, Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean,
                        Tensor rstd, Tensor weight, const Dropout& dropout, bool accumulate) {
  const int64_t C = weight.num_elements(), N = inp.num_elements() / C;
  context.need_scratch("layernorm_backward", layernorm_scratch_floats(C));
  // This comes first, because dresidual may be the memory of dnormed.
  parameter_gradients(context, dweight, dbias, dnormed, inp, mean, rstd, accumulate);
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    const float* w = read_row(weight, 0, C, buffer);
    for (int64_t n = begin; n < end; ++n) {
      float* gradient = buffer + 3 * C;
      normalise_backward(gradient, read_row(dnormed, n * C, C, buffer + C),
                         read_row(inp, n * C, C, buffer + 2 * C), mean.as<float>()[n],
                         rstd.as<float>()[n], w, C);
      if (dresidual_in) {
        add_rows(gradient, gradient, read_row(dresidual_in, n * C, C, buffer + C), C);
      }
      store_row(dresidual, n * C, C, gradient);
      if (dbranch) {
        if (dropout.p > 0) {
          dropout_multipliers(buffer + C, dropout, n * C, C);
          multiply_row(gradient, buffer + C, C);
        }
        store_row(dbranch, n * C, C, gradient);
      }
    }
  });
}

}  // namespace weft::cpu
