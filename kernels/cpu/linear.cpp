// Linear layers with their bias and GELU, and the backward of each.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

namespace {

constexpr int64_t kColumnBlock = 64;  // columns per task of the bias gradient

WEFT_VECTOR_CLONES void add_to_sums(double* sums, const float* values, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(values[i]);
}

// The tanh form is x * sigmoid(2u) with u = sqrt(2/pi) * (x + 0.044715 x^3), because
// (1 + tanh u) / 2 = sigmoid(2u).
constexpr float kTwoSqrtTwoOverPi = 1.59576912160573F;
constexpr float kCubic = 0.044715F;

inline float sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

WEFT_VECTOR_CLONES void tanh_gelu_row(float* out, const float* pre, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = pre[i];
    out[i] = x * sigmoid(kTwoSqrtTwoOverPi * (x + kCubic * x * x * x));
  }
}

WEFT_VECTOR_CLONES void tanh_gelu_backward_row(float* gradient, const float* pre, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = pre[i];
    const float s = sigmoid(kTwoSqrtTwoOverPi * (x + kCubic * x * x * x));
    const float slope = kTwoSqrtTwoOverPi * (1.0F + 3.0F * kCubic * x * x);
    gradient[i] *= s + x * s * (1.0F - s) * slope;
  }
}

// Returns Phi(x), the normal distribution function.
inline float normal_cdf(float x) { return 0.5F * (1.0F + std::erf(x * 0.70710678118654752F)); }

// out[i] = gelu(pre[i]); out may be pre. [Hendrycks & Gimpel 2016, arXiv:1606.08415]
void gelu_row(float* out, const float* pre, int64_t n, Gelu gelu) {
  if (gelu == Gelu::kTanh) return tanh_gelu_row(out, pre, n);
  for (int64_t i = 0; i < n; ++i) out[i] = pre[i] * normal_cdf(pre[i]);
}

// gradient[i] *= gelu'(pre[i])
void gelu_backward_row(float* gradient, const float* pre, int64_t n, Gelu gelu) {
  if (gelu == Gelu::kTanh) return tanh_gelu_backward_row(gradient, pre, n);
  for (int64_t i = 0; i < n; ++i) {
    const float density = 0.39894228040143268F * std::exp(-0.5F * pre[i] * pre[i]);
    gradient[i] *= normal_cdf(pre[i]) + pre[i] * density;
  }
}

// fp32 results are computed in place, bf16 ones in scratch, from where they are rounded tile by
// tile.
Tensor in_place(const Tensor& out) { return out.dtype() == DType::kFloat32 ? out : Tensor(); }

}  // namespace

int64_t linear_scratch_floats() { return kGemmScratchFloats; }

void column_sums(const Context& context, Tensor out, Tensor inp, bool accumulate) {
  const int64_t O = out.num_elements(), N = inp.num_elements() / O;
  context.for_each_range(O, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    double sums[kColumnBlock] = {};
    for (int64_t n = 0; n < N; ++n) {
      const float* row = read_row(inp, n * O + begin, end - begin, context.scratch(thread));
      add_to_sums(sums, row, end - begin);
    }
    for (int64_t i = begin; i < end; ++i) {
      float& out_i = out.as<float>()[i];
      out_i = static_cast<float>(sums[i - begin]) + (accumulate ? out_i : 0.0F);
    }
  });
}

void linear_forward(const Context& context, Tensor out, Tensor pre, Tensor inp, Tensor weight,
                    Tensor bias, Gelu gelu) {
  const int64_t O = weight.shape(0), I = weight.shape(1), N = inp.num_elements() / I;
  context.need_scratch("linear_forward", linear_scratch_floats());
  const Tensor product = pre ? pre : out;
  multiply(context, in_place(product), {inp, I, false}, {weight, I, true}, N, O, I, false,
           [&](const Tile& tile) {
             const int64_t width = tile.num_columns;
             const float* b = bias ? read_row(bias, tile.column, width, tile.buffer) : nullptr;
             for (int64_t r = 0; r < tile.num_rows; ++r) {
               float* row = tile.values + r * tile.stride;
               const int64_t first = (tile.row + r) * O + tile.column;
               if (b != nullptr) add_rows(row, row, b, width);
               store_row(product, first, width, row);
               if (pre) {
                 float* activated = row_target(out, first, tile.buffer + kMaxTileColumns);
                 gelu_row(activated, row, width, gelu);
                 store_row(out, first, width, activated);
               }
             }
           });
}

void linear_backward_input(const Context& context, Tensor dinp, Tensor dout, Tensor weight,
                           Tensor pre, Gelu gelu) {
  const int64_t O = weight.shape(0), I = weight.shape(1), N = dout.num_elements() / O;
  context.need_scratch("linear_backward_input", linear_scratch_floats());
  multiply(context, in_place(dinp), {dout, O, false}, {weight, I, false}, N, I, O, false,
           [&](const Tile& tile) {
             for (int64_t r = 0; r < tile.num_rows; ++r) {
               float* row = tile.values + r * tile.stride;
               const int64_t first = (tile.row + r) * I + tile.column;
               if (pre) {
                 const float* p = read_row(pre, first, tile.num_columns, tile.buffer);
                 gelu_backward_row(row, p, tile.num_columns, gelu);
               }
               store_row(dinp, first, tile.num_columns, row);
             }
           });
}

void linear_backward_weight(const Context& context, Tensor dweight, Tensor dbias, Tensor dout,
                            Tensor inp, bool accumulate) {
  const int64_t O = dweight.shape(0), I = dweight.shape(1), N = dout.num_elements() / O;
  context.need_scratch("linear_backward_weight", linear_scratch_floats());
  multiply(context, dweight, {dout, O, true}, {inp, I, false}, O, I, N, accumulate,
           [](const Tile&) {});
  if (dbias) column_sums(context, dbias, dout, accumulate);
}

}  // namespace weft::cpu
