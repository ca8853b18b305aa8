// Checks of linear layers, in fp8 too, and of what follows fc1.
#include "kernels/checks/check_shapes.h"
#include "kernels/checks/checker.h"

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

}  // namespace

void check_linear_forward(const Tensor& out, const Tensor& inp, const Tensor& weight,
                          const Tensor& bias) {
  check_linear(Checker("linear_forward"), out, inp, weight, bias);
}

void check_linear_backward_input(const Tensor& dinp, const Tensor& dout, const Tensor& weight) {
  check_input_gradient(Checker("linear_backward_input"), "dinp", dinp, dout, weight);
}

void check_linear_gelu_forward(const Tensor& out, const Tensor& pre, const Tensor& inp,
                               const Tensor& weight, const Tensor& bias) {
  const Checker check("linear_gelu_forward");
  check_linear(check, pre, inp, weight, bias);
  check.rows("out", out, weight.dtype(), num_rows(pre), weight.shape(0));
}

void check_linear_gelu_backward_input(const Tensor& dpre, const Tensor& dbias, const Tensor& dout,
                                      const Tensor& weight, const Tensor& pre) {
  const Checker check("linear_gelu_backward_input");
  check_input_gradient(check, "dpre", dpre, dout, weight);
  check.rows("pre", pre, weight.dtype(), num_rows(dpre), weight.shape(1));
  if (dbias) check.tensor("dbias", dbias, DType::kFloat32, {weight.shape(1)});
}

void check_linear_backward_weight(const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                                  const Tensor& inp) {
  const Checker check("linear_backward_weight");
  check.rank("dweight", dweight, 2, "(O,I)");
  check.model_type("dout", dout);
  check.rank("dout", dout, 2, "(N,O)");
  const int64_t N = num_rows(dout), O = num_columns(dout);
  check.rows("inp", inp, dout.dtype(), N, num_columns(inp));
  check.tensor("dweight", dweight, DType::kFloat32, {O, num_columns(inp)});
  if (dbias) check.tensor("dbias", dbias, DType::kFloat32, {O});
}

void check_quantize(const Quantize& args) {
  const Checker check("quantize");
  const Tensor& like = args.inp ? args.inp : args.pre;
  check.model_type(args.inp ? "inp" : "pre", like);
  check.rank("inp", like, 2, "(N,C)");
  const int64_t N = num_rows(like), C = num_columns(like);
  if (args.pre) check.rows("pre", args.pre, like.dtype(), N, C);
  if (args.value) check.rows("value", args.value, like.dtype(), N, C);
  check.require(args.rows || args.transposed, "neither rows nor transposed are asked for");
  const DType format = (args.rows ? args.rows : args.transposed).dtype();
  check.require(is_float8(format), std::string("fp8 is ") + name_of(format));
  if (args.rows) check.tensor("rows", args.rows, format, {N, C});
  if (args.transposed) check.tensor("transposed", args.transposed, format, {C, N});
  check.tensor("scaling", args.scaling, DType::kFloat32, {2});
  if (args.amax) check.tensor("amax", args.amax, DType::kFloat32, {1});
  if (args.column_sums) check.tensor("column_sums", args.column_sums, DType::kFloat32, {C});
}

void check_transpose_fp8(const Tensor& transposed, const Tensor& rows) {
  const Checker check("transpose_fp8");
  check.require(rows.rank() == 2 && is_float8(rows.dtype()),
                "rows is " + text_of(rows) + ", should be fp8 (N,C)");
  check.tensor("transposed", transposed, rows.dtype(), {num_columns(rows), num_rows(rows)});
}

void check_fp8_product(const Fp8Product& args) {
  const Checker check("fp8_product");
  check.require(args.a.rank() == 2 && is_float8(args.a.dtype()),
                "a is " + text_of(args.a) + ", should be fp8 (M,K)");
  check.require(args.b.rank() == 2 && is_float8(args.b.dtype()),
                "b is " + text_of(args.b) + ", should be fp8 (N,K)");
  check.require(args.a.dtype() == DType::kFloat8E4M3 || args.b.dtype() == DType::kFloat8E4M3,
                "a and b are e5m2; there is no such product");
  const int64_t M = args.a.shape(0), N = args.b.shape(0), K = args.a.shape(1);
  check.tensor("b", args.b, args.b.dtype(), {N, K});
  check.model_type("out", args.out);
  check.rows("out", args.out, args.out.dtype(), M, N);
  check.require(!args.accumulate || args.out.dtype() == DType::kFloat32,
                "out is " + text_of(args.out) + "; only fp32 accumulates");
  if (args.bias) check.tensor("bias", args.bias, args.out.dtype(), {N});
  check.tensor("a_scaling", args.a_scaling, DType::kFloat32, {2});
  check.tensor("b_scaling", args.b_scaling, DType::kFloat32, {2});
}

void check_update_fp8_scaling(const Fp8ScalingUpdate& args) {
  const Checker check("update_fp8_scaling");
  const int64_t length = args.history_len;
  check.require(args.states.rank() == 2 && length > 0 && args.states.shape(1) >= 2 + length,
                "states is " + text_of(args.states) + ", should be (n,R) with R >= 2 + " +
                    std::to_string(length));
  const int64_t n = args.states.shape(0);
  check.tensor("states", args.states, DType::kFloat32, {n, args.states.shape(1)});
  check.tensor("amaxes", args.amaxes, DType::kFloat32, {n});
  check.require(is_float8(args.format), std::string("the format is ") + name_of(args.format));
  check.require(args.slot >= 0 && args.slot < length,
                "slot " + std::to_string(args.slot) + " of a history of " + std::to_string(length));
}

void check_gelu_forward(const Tensor& out, const Tensor& pre) {
  const Checker check("gelu_forward");
  check.model_type("out", out);
  check.rank("out", out, 2, "(N,F)");
  check.rows("pre", pre, out.dtype(), num_rows(out), num_columns(out));
}

void check_glu_forward(const Tensor& out, const Tensor& pre) {
  const Checker check("glu_forward");
  check.model_type("out", out);
  check.rank("out", out, 2, "(N,F)");
  check.rows("pre", pre, out.dtype(), num_rows(out), 2 * num_columns(out));
}

void check_glu_backward(const Tensor& dpre, const Tensor& dout, const Tensor& pre) {
  const Checker check("glu_backward");
  check.model_type("dout", dout);
  check.rank("dout", dout, 2, "(N,F)");
  check.rows("pre", pre, dout.dtype(), num_rows(dout), 2 * num_columns(dout));
  check.rows("dpre", dpre, dout.dtype(), num_rows(dout), 2 * num_columns(dout));
}

}  // namespace weft
