// Linear layers with their bias, and the backward of each.
#include "kernels/operations/linear.h"

#include "kernels/cpu/loops/activation.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"
#include "kernels/operations/activation.h"

namespace weft::cpu {

namespace {

constexpr int64_t kColumnBlock = 64;  // columns per task of the bias gradient

WEFT_VECTOR_CLONES void add_to_sums(double* sums, const float* values, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(values[i]);
}

// fp32 results are computed in place, others in scratch, from where they are rounded tile by
// tile.
Tensor in_place(const Tensor& out) { return out.dtype() == DType::kFloat32 ? out : Tensor(); }

// With an empty `pre` there is no GELU.
void input_gradient(const Context& context, const Tensor& dinp, const Tensor& dout,
                    const Tensor& weight, const Tensor& pre, Activation activation) {
  const int64_t O = weight.shape(0), I = weight.shape(1), N = dout.num_elements() / O;
  context.need_scratch("linear_backward_input", kGemmScratchFloats);
  multiply(context, in_place(dinp), {dout, O, false}, {weight, I, false}, N, I, O, false,
           [&](const Tile& tile) {
             for (int64_t r = 0; r < tile.num_rows; ++r) {
               float* row = tile.values + r * tile.stride;
               const int64_t first = (tile.row + r) * I + tile.column;
               if (pre) {
                 const float* p = read_row(pre, first, tile.num_columns, tile.buffer);
                 activate_backward_row(row, p, tile.num_columns, activation);
               }
               store_row(dinp, first, tile.num_columns, row);
             }
           });
}

}  // namespace

void column_sums(const Context& context, const Tensor& out, const Tensor& inp, bool accumulate) {
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

void run(const Context& context, const LinearForward& op) {
  const Tensor &out = op.out, &inp = op.inp, &weight = op.weight, &bias = op.bias;
  const int64_t O = weight.shape(0), I = weight.shape(1), N = inp.num_elements() / I;
  context.need_scratch("linear_forward", kGemmScratchFloats);
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

void run(const Context& context, const LinearBackwardInput& op) {
  input_gradient(context, op.dinp, op.dout, op.weight, {}, Activation::kGeluTanh);
}

void run(const Context& context, const LinearActivationForward& op) {
  run(context, LinearForward{.out = op.pre, .inp = op.inp, .weight = op.weight, .bias = op.bias});
  run(context, ActivationForward{.out = op.out, .pre = op.pre, .activation = op.activation});
}

void run(const Context& context, const LinearActivationBackwardInput& op) {
  input_gradient(context, op.dpre, op.dout, op.weight, op.pre, op.activation);
  if (op.dbias) column_sums(context, op.dbias, op.dpre, op.accumulate);
}

void run(const Context& context, const LinearBackwardWeight& op) {
  const Tensor &dweight = op.dweight, &dout = op.dout;
  const int64_t O = dweight.shape(0), I = dweight.shape(1), N = dout.num_elements() / O;
  context.need_scratch("linear_backward_weight", kGemmScratchFloats);
  multiply(context, dweight, {dout, O, true}, {op.inp, I, false}, O, I, N, op.accumulate,
           [](const Tile&) {});
  if (op.dbias) column_sums(context, op.dbias, dout, op.accumulate);
}

}  // namespace weft::cpu
