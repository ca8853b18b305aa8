// GELU and gated linear units, and the backward of the latter.
#include "kernels/operations/activation.h"

#include <algorithm>

#include "kernels/cpu/loops/activation.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 16;   // rows per task
constexpr int64_t kBlock = 256;  // columns that are computed at a time
static_assert(6 * kBlock <= kGemmScratchFloats);

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
  activate_row(values, pre, n, Activation::kGeluErf);
  std::fill_n(slopes, n, 1.0F);
  activate_backward_row(slopes, pre, n, Activation::kGeluErf);
}

// Calls block(row, column, width, buffer) for pieces of up to kBlock columns of (N,F).
template <typename Block>
void for_each_block(const Context& context, const Tensor& rows, const Block& block) {
  const int64_t F = num_columns(rows);
  context.need_scratch("glu", kGemmScratchFloats);
  context.for_each_range(num_rows(rows), kGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < F; column += kBlock)
        block(row, column, std::min(kBlock, F - column), context.scratch(thread));
    }
  });
}

}  // namespace

void run(const Context& context, const ActivationForward& op) {
  const Tensor &out = op.out, &pre = op.pre;
  const int64_t F = num_columns(out);
  for_each_block(context, out, [&](int64_t row, int64_t column, int64_t n, float* buffer) {
    const int64_t first = row * F + column;
    float* values = row_target(out, first, buffer);
    activate_row(values, read_row(pre, first, n, buffer + kBlock), n, op.activation);
    store_row(out, first, n, values);
  });
}

void run(const Context& context, const GluForward& op) {
  const Tensor &out = op.out, &pre = op.pre;
  const int64_t F = num_columns(out);
  for_each_block(context, out, [&](int64_t row, int64_t column, int64_t n, float* buffer) {
    float *values = buffer, *slopes = values + kBlock, *gate = slopes + kBlock;
    const int64_t first = row * 2 * F + column;
    activation_row(values, slopes, read_row(pre, first, n, gate), n, op.glu);
    multiply_row(values, read_row(pre, first + F, n, gate), n);
    store_row(out, row * F + column, n, values);
  });
}

void run(const Context& context, const GluBackward& op) {
  const Tensor &dpre = op.dpre, &dout = op.dout, &pre = op.pre;
  const int64_t F = num_columns(dout);
  for_each_block(context, dout, [&](int64_t row, int64_t column, int64_t n, float* buffer) {
    float *values = buffer, *slopes = values + kBlock, *up = slopes + kBlock;
    const int64_t gate_at = row * 2 * F + column, up_at = gate_at + F;
    activation_row(values, slopes, read_row(pre, gate_at, n, up), n, op.glu);
    multiply_row(slopes, read_row(pre, up_at, n, up), n);
    const float* gradient = read_row(dout, row * F + column, n, up);
    multiply_row(values, gradient, n);
    multiply_row(slopes, gradient, n);
    store_row(dpre, gate_at, n, slopes);
    store_row(dpre, up_at, n, values);
  });
}

}  // namespace weft::cpu
