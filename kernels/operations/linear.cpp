#include "kernels/operations/linear.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_linear(const Checker& check, const Tensor& out, const Tensor& inp, const Tensor& weight,
                  const Tensor& bias) {
  check.model_type("weight", weight);
  check.require(weight.rank() == 2, "weight is " + text_of(weight) + ", should be (O,I)");
  check.rank("inp", inp, 2, "(N,I)");
  const int64_t N = num_rows(inp), O = weight.shape(0), I = weight.shape(1);
  check.rows("inp", inp, weight.dtype(), N, I);
  check.rows("out", out, weight.dtype(), N, O);
  if (bias) check.tensor("bias", bias, weight.dtype(), {O});
}

void check_input_gradient(const Checker& check, const char* dinp_name, const Tensor& dinp,
                          const Tensor& dout, const Tensor& weight) {
  check.model_type("weight", weight);
  check.require(weight.rank() == 2, "weight is " + text_of(weight) + ", should be (O,I)");
  check.rank("dout", dout, 2, "(N,O)");
  const int64_t N = num_rows(dout);
  check.rows("dout", dout, weight.dtype(), N, weight.shape(0));
  check.rows(dinp_name, dinp, weight.dtype(), N, weight.shape(1));
}

// A linear layer has 2 N O I FLOPs in each of its directions.
Operation linear(const char* name, int64_t N, const Tensor& weight, DType dtype, double bytes) {
  const int64_t O = weight.shape(0), I = weight.shape(1);
  return {.name = name,
          .dimensions = "N O I",
          .sizes = {N, O, I},
          .dtype = dtype,
          .flops = 2 * product({N, O, I}),
          .bytes = bytes};
}

}  // namespace

void check(const LinearForward& op) {
  check_linear(Checker("linear_forward"), op.out, op.inp, op.weight, op.bias);
}
Operation operation_of(const LinearForward& op) {
  return linear("linear_forward", num_rows(op.inp), op.weight, op.weight.dtype(),
                bytes_of({op.out, op.inp, op.weight, op.bias}));
}

void check(const LinearBackwardInput& op) {
  check_input_gradient(Checker("linear_backward_input"), "dinp", op.dinp, op.dout, op.weight);
}
Operation operation_of(const LinearBackwardInput& op) {
  return linear("linear_backward_input", num_rows(op.dout), op.weight, op.weight.dtype(),
                bytes_of({op.dinp, op.dout, op.weight}));
}

void check(const LinearBackwardWeight& op) {
  const Checker checker("linear_backward_weight");
  checker.rank("dweight", op.dweight, 2, "(O,I)");
  checker.model_type("dout", op.dout);
  checker.rank("dout", op.dout, 2, "(N,O)");
  const int64_t N = num_rows(op.dout), O = num_columns(op.dout), I = num_columns(op.inp);
  checker.rows("inp", op.inp, op.dout.dtype(), N, I);
  checker.tensor("dweight", op.dweight, DType::kFloat32, {O, I});
  if (op.dbias) checker.tensor("dbias", op.dbias, DType::kFloat32, {O});
}
Operation operation_of(const LinearBackwardWeight& op) {
  return linear("linear_backward_weight", num_rows(op.dout), op.dweight, op.dout.dtype(),
                bytes_of({op.dout, op.inp}) + sum_bytes({op.dweight, op.dbias}, op.accumulate));
}

void check(const LinearActivationForward& op) {
  const Checker checker("linear_activation_forward");
  check_linear(checker, op.pre, op.inp, op.weight, op.bias);
  checker.rows("out", op.out, op.weight.dtype(), num_rows(op.pre), op.weight.shape(0));
}
Operation operation_of(const LinearActivationForward& op) {
  return linear(is_gelu(op.activation) ? "linear_gelu_forward" : "linear_relu_forward",
                num_rows(op.inp), op.weight, op.weight.dtype(),
                bytes_of({op.out, op.pre, op.inp, op.weight, op.bias}));
}

void check(const LinearActivationBackwardInput& op) {
  const Checker checker("linear_activation_backward_input");
  check_input_gradient(checker, "dpre", op.dpre, op.dout, op.weight);
  const int64_t I = op.weight.shape(1);
  checker.rows("pre", op.pre, op.weight.dtype(), num_rows(op.dpre), I);
  if (op.dbias) checker.tensor("dbias", op.dbias, DType::kFloat32, {I});
}
Operation operation_of(const LinearActivationBackwardInput& op) {
  return linear(
      is_gelu(op.activation) ? "linear_gelu_backward_input" : "linear_relu_backward_input",
      num_rows(op.dout), op.weight, op.weight.dtype(),
      bytes_of({op.dpre, op.dout, op.weight, op.pre}) + sum_bytes({op.dbias}, op.accumulate));
}

}  // namespace weft
