// Linear layers with their bias, GELU and gated linear units, and the backward of each.
#include <algorithm>

#include "kernels/checks/check_shapes.h"
#include "kernels/cpu/loops/gelu.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kColumnBlock = 64;  // columns per task of the bias gradient
constexpr int64_t kGluGrain = 16;     // rows per task of an activation
constexpr int64_t kGluBlock = 256;    // columns that it computes at a time
static_assert(6 * kGluBlock <= kGemmScratchFloats);

WEFT_VECTOR_CLONES void add_to_sums(double* sums, const float* values, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(values[i]);
}

WEFT_VECTOR_CLONES void silu_row(float* values, float* slopes, const float* pre, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float s = sigmoid(pre[i]);
    values[i] = pre[i] * s;
    slopes[i] = s + values[i] * (1.0F - s);
  }
}

// values[i] = act(pre[i]) and slopes[i] = act'(pre[i]).
void activation_row(float* values, float* slopes, const float* pre, int64_t n, Glu glu) {
  if (glu == Glu::kSwiglu) return silu_row(values, slopes, pre, n);
  for (int64_t i = 0; i < n; ++i) {
    const float x = pre[i];
    const float slope = glu == Glu::kLiglu || (glu == Glu::kReglu && x > 0.0F) ? 1.0F : 0.0F;
    values[i] = x * slope;
    slopes[i] = slope;
  }
  if (glu != Glu::kGeglu) return;
  gelu_row(values, pre, n, Gelu::kErf);
  std::fill_n(slopes, n, 1.0F);
  gelu_backward_row(slopes, pre, n, Gelu::kErf);
}

// fp32 results are computed in place, others in scratch, from where they are rounded tile by
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

void linear_forward(const Context& context, Tensor out, Tensor inp, Tensor weight, Tensor bias) {
  const int64_t O = weight.shape(0), I = weight.shape(1), N = inp.num_elements() / I;
  context.need_scratch("linear_forward", linear_scratch_floats());
  multiply(context, in_place(out), {inp, I, false}, {weight, I, true}, N, O, I, false,
           [&](const Tile& tile) {
             const int64_t width = tile.num_columns;
             const float* b = bias ? read_row(bias, tile.column, width, tile.buffer) : nullptr;
             for (int64_t r = 0; r < tile.num_rows; ++r) {
               float* row = tile.values + r * tile.stride;
               const int64_t first = (tile.row + r) * O + tile.column;
               if (b != nullptr) add_rows(row, row, b, width);
               store_row(out, first, width, row);
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

// Calls block(row, column, width, buffer) for pieces of up to kGluBlock columns of (N,F).
template <typename Block>
void for_each_glu_block(const Context& context, const Tensor& rows, const Block& block) {
  const int64_t F = num_columns(rows);
  context.need_scratch("glu", linear_scratch_floats());
  context.for_each_range(num_rows(rows), kGluGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < F; column += kGluBlock)
        block(row, column, std::min(kGluBlock, F - column), context.scratch(thread));
    }
  });
}

void gelu_forward(const Context& context, Tensor out, Tensor pre, Gelu gelu) {
  const int64_t F = num_columns(out);
  for_each_glu_block(context, out, [&](int64_t row, int64_t column, int64_t n, float* buffer) {
    const int64_t first = row * F + column;
    float* values = row_target(out, first, buffer);
    gelu_row(values, read_row(pre, first, n, buffer + kGluBlock), n, gelu);
    store_row(out, first, n, values);
  });
}

void glu_forward(const Context& context, Tensor out, Tensor pre, Glu glu) {
  const int64_t F = num_columns(out);
  for_each_glu_block(context, out, [&](int64_t row, int64_t column, int64_t n, float* buffer) {
    float *values = buffer, *slopes = values + kGluBlock, *gate = slopes + kGluBlock;
    const int64_t first = row * 2 * F + column;
    activation_row(values, slopes, read_row(pre, first, n, gate), n, glu);
    multiply_row(values, read_row(pre, first + F, n, gate), n);
    store_row(out, row * F + column, n, values);
  });
}

void glu_backward(const Context& context, Tensor dpre, Tensor dout, Tensor pre, Glu glu) {
  const int64_t F = num_columns(dout);
  for_each_glu_block(context, dout, [&](int64_t row, int64_t column, int64_t n, float* buffer) {
    float *values = buffer, *slopes = values + kGluBlock, *up = slopes + kGluBlock;
    const int64_t gate_at = row * 2 * F + column, up_at = gate_at + F;
    activation_row(values, slopes, read_row(pre, gate_at, n, up), n, glu);
    multiply_row(slopes, read_row(pre, up_at, n, up), n);
    const float* gradient = read_row(dout, row * F + column, n, up);
    multiply_row(values, gradient, n);
    multiply_row(slopes, gradient, n);
    store_row(dpre, gate_at, n, slopes);
    store_row(dpre, up_at, n, values);
  });
}

}  // namespace weft::cpu
