// Checks of embeddings, of the residual stream with its norms, and of casts.
#include <utility>

#include "kernels/checks/check_shapes.h"
#include "kernels/checks/checker.h"

namespace weft {

namespace {

// Returns the type that the residual stream may have: that of `tensor` if it is fp32, else the model's.
DType stream_type(const Tensor& tensor, DType x) {
  return tensor.dtype() == DType::kFloat32 ? DType::kFloat32 : x;
}

// Checks the bias of a branch: (C), or (S,C) with a row for each of the period.
void check_branch_bias(const Checker& check, const char* name, const Tensor& bias, DType dtype,
                       int64_t C, int64_t period, int64_t first_row) {
  if (!bias) return;
  check.require(period >= 1 && first_row >= 0, "bias_period is " + std::to_string(period) +
                                                   " and first_row " + std::to_string(first_row));
  if (period == 1) {
    check.elements(name, bias, dtype, C);
    return;
  }
  check.rows(name, bias, dtype, num_rows(bias), C);
  check.require(num_rows(bias) >= period, std::string(name) + " is " + text_of(bias) +
                                              ", should have " + std::to_string(period) +
                                              " rows or more");
}

// Checks the documents of the tokens whose rows of the residual stream begin with `first_row`.
void check_positions(const Checker& check, const Tensor& document_bounds, const Tensor& branch_bias,
                     int64_t N, int64_t period, int64_t first_row) {
  if (!document_bounds) return;
  check.require(branch_bias && period > 1,
                "document_bounds are given, but no table of positions (branch_bias)");
  check.require(document_bounds.rank() == 3,
                "document_bounds is " + text_of(document_bounds) + ", should be (B,T,2)");
  const int64_t B = document_bounds.shape(0);
  check.tensor("document_bounds", document_bounds, DType::kInt32, {B, period, 2});
  check.require(first_row + N <= B * period, "document_bounds is " + text_of(document_bounds) +
                                                 ", but the rows end with " +
                                                 std::to_string(first_row + N));
}

// Checks the output of a norm, which is there in x, in fp8, or in both.
void check_normed(const Checker& check, const ResidualNorm& args, DType x, int64_t N, int64_t C) {
  const Fp8Output& fp8 = args.normed_fp8;
  if (args.normed || !fp8.rows) check.rows("normed", args.normed, x, N, C);
  if (!fp8.rows) return;
  check.tensor("normed_fp8.rows", fp8.rows, DType::kFloat8E4M3, {N, C});
  check.tensor("normed_fp8.scaling", fp8.scaling, DType::kFloat32, {2});
  if (fp8.amax) check.tensor("normed_fp8.amax", fp8.amax, DType::kFloat32, {1});
}

// Checks that tensors that belong together are all absent.
void check_absent(const Checker& check, const char* why,
                  std::initializer_list<std::pair<const char*, const Tensor*>> tensors) {
  for (const auto& [name, tensor] : tensors) {
    check.require(tensor->empty(), std::string(name) + " is given, but there is no " + why);
  }
}

}  // namespace

void check_cast(const Tensor& dst, const Tensor& src) {
  const Checker check("cast");
  check.model_type("src", src);
  check.model_type("dst", dst);
  check.require(src.dtype() == dst.dtype() || src.dtype() == DType::kFloat32 ||
                    dst.dtype() == DType::kFloat32,
                "dst is " + text_of(dst) + " and src is " + text_of(src) + "; one must be fp32");
  check.elements("dst", dst, dst.dtype(), src.num_elements());
}

void check_embedding_forward(const Tensor& out, const Tensor& tokens, const Tensor& word) {
  const Checker check("embedding_forward");
  check.model_type("out", out);
  check.require(out.rank() == 3, "out is " + text_of(out) + ", should be (B,T,C)");
  check.tensor("tokens", tokens, DType::kInt32, {out.shape(0), out.shape(1)});
  check.rows("word", word, out.dtype(), num_rows(word), out.shape(2));
}

void check_embedding_backward(const Tensor& dword, const Tensor& dout, const Tensor& tokens) {
  const Checker check("embedding_backward");
  check.model_type("dout", dout);
  check.require(dout.rank() == 3, "dout is " + text_of(dout) + ", should be (B,T,C)");
  check.tensor("tokens", tokens, DType::kInt32, {dout.shape(0), dout.shape(1)});
  check.rows("dword", dword, DType::kFloat32, num_rows(dword), dout.shape(2));
}

void check_residual_norm_forward(const ResidualNorm& args) {
  const Checker check("residual_norm_forward");
  const bool has_branch = !args.branch.empty();
  const char* name = has_branch ? "branch" : "residual";
  const Tensor& rows = has_branch ? args.branch : args.residual;
  check.model_type(name, rows);
  check.rank(name, rows, 2, "(N,C)");
  const DType x = !has_branch && args.weight ? args.weight.dtype() : rows.dtype();
  const DType r = stream_type(has_branch ? args.residual_out : args.residual, x);
  const int64_t N = num_rows(rows), C = num_columns(rows);
  if (args.residual) check.rows("residual", args.residual, r, N, C);
  if (has_branch) {
    check.rows("residual_out", args.residual_out, r, N, C);
    check_branch_bias(check, "branch_bias", args.branch_bias, x, C, args.bias_period,
                      args.first_row);
    check_positions(check, args.document_bounds, args.branch_bias, N, args.bias_period,
                    args.first_row);
  } else {
    check_absent(check, "branch",
                 {{"residual_out", &args.residual_out},
                  {"branch_bias", &args.branch_bias},
                  {"document_bounds", &args.document_bounds}});
    check.require(args.dropout.p == 0.0F, "dropout is given, but there is no branch");
  }
  if (args.weight) {
    check.model_type("weight", args.weight);
    check_normed(check, args, x, N, C);
    check.elements("rstd", args.rstd, DType::kFloat32, N);
    check.tensor("weight", args.weight, x, {C});
    if (args.bias) {
      check.elements("mean", args.mean, DType::kFloat32, N);
      check.tensor("bias", args.bias, x, {C});
    } else {
      check_absent(check, "bias", {{"mean", &args.mean}});
    }
  } else {
    check.require(has_branch, "neither a branch nor a weight is given: nothing to do");
    check_absent(check, "weight",
                 {{"normed", &args.normed},
                  {"normed_fp8.rows", &args.normed_fp8.rows},
                  {"mean", &args.mean},
                  {"rstd", &args.rstd},
                  {"bias", &args.bias}});
  }
  check.dropout(args.dropout);
}

void check_residual_norm_backward(const ResidualNormBackward& args) {
  const Checker check("residual_norm_backward");
  check.model_type("dresidual", args.dresidual);
  check.rank("dresidual", args.dresidual, 2, "(N,C)");
  const Tensor& of_model = args.weight ? args.weight : args.dbranch;
  if (of_model) check.model_type(args.weight ? "weight" : "dbranch", of_model);
  const DType x = (of_model ? of_model : args.dresidual).dtype();
  const DType r = stream_type(args.dresidual, x);
  const int64_t N = num_rows(args.dresidual), C = num_columns(args.dresidual);
  check.rows("dresidual", args.dresidual, r, N, C);
  if (args.dresidual_in) check.rows("dresidual_in", args.dresidual_in, r, N, C);
  if (args.dbranch) check.rows("dbranch", args.dbranch, x, N, C);
  check.require(
      args.dbranch || args.dbranch_bias.empty() || r == x,
      "dbranch_bias is given, but dbranch, whose rows it sums, is empty; leave it out where "
      "the residual stream has the model's type only");
  check.require(args.dbranch.empty() || args.dbranch.data() != args.dresidual.data(),
                "dbranch and dresidual are the same memory; leave dbranch empty where p == 0");
  check.require(args.dropout.p == 0.0F || args.dbranch,
                "dropout is given, but dbranch, which it applies to, is empty");
  check_branch_bias(check, "dbranch_bias", args.dbranch_bias, DType::kFloat32, C, args.bias_period,
                    args.first_row);
  check_positions(check, args.document_bounds, args.dbranch_bias, N, args.bias_period,
                  args.first_row);
  if (args.weight) {
    check.tensor("weight", args.weight, x, {C});
    check.rows("dnormed", args.dnormed, x, N, C);
    check.rows("residual", args.residual, r, N, C);
    check.elements("rstd", args.rstd, DType::kFloat32, N);
    check.tensor("dweight", args.dweight, DType::kFloat32, {C});
    if (args.mean) {
      check.elements("mean", args.mean, DType::kFloat32, N);
      check.tensor("dbias", args.dbias, DType::kFloat32, {C});
    } else {
      check_absent(check, "mean", {{"dbias", &args.dbias}});
    }
  } else {
    check.rows("dresidual_in", args.dresidual_in, r, N, C);
    check_absent(check, "weight",
                 {{"dnormed", &args.dnormed},
                  {"residual", &args.residual},
                  {"mean", &args.mean},
                  {"rstd", &args.rstd},
                  {"dweight", &args.dweight},
                  {"dbias", &args.dbias}});
  }
  check.dropout(args.dropout);
}

}  // namespace weft
