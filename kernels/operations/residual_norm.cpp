#include "kernels/operations/residual_norm.h"

#include <algorithm>
#include <utility>

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

// Returns the type that the residual stream may have: that of `tensor` if it is fp32, else the
// model's.
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
void check_normed(const Checker& check, const ResidualNormForward& args, DType x, int64_t N,
                  int64_t C) {
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

// Returns the bytes of the rows of a bias that `rows` rows use: of a table of positions, those of a
// sequence.
double bias_bytes(const Tensor& bias, int64_t bias_period, const Tensor& rows) {
  if (!bias) return 0;
  const int64_t used = std::min({num_rows(bias), bias_period, num_rows(rows)});
  return product({used, num_columns(bias), size_bytes(bias.dtype())});
}

}  // namespace

void check(const ResidualNormForward& op) {
  const Checker checker("residual_norm_forward");
  const bool has_branch = !op.branch.empty();
  const char* name = has_branch ? "branch" : "residual";
  const Tensor& rows = has_branch ? op.branch : op.residual;
  checker.model_type(name, rows);
  checker.rank(name, rows, 2, "(N,C)");
  const DType x = !has_branch && op.weight ? op.weight.dtype() : rows.dtype();
  const DType r = stream_type(has_branch ? op.residual_out : op.residual, x);
  const int64_t N = num_rows(rows), C = num_columns(rows);
  if (op.residual) checker.rows("residual", op.residual, r, N, C);
  if (has_branch) {
    checker.rows("residual_out", op.residual_out, r, N, C);
    check_branch_bias(checker, "branch_bias", op.branch_bias, x, C, op.bias_period, op.first_row);
    check_positions(checker, op.document_bounds, op.branch_bias, N, op.bias_period, op.first_row);
  } else {
    check_absent(checker, "branch",
                 {{"residual_out", &op.residual_out},
                  {"branch_bias", &op.branch_bias},
                  {"document_bounds", &op.document_bounds}});
    checker.require(op.dropout.p == 0.0F, "dropout is given, but there is no branch");
  }
  if (op.weight) {
    checker.model_type("weight", op.weight);
    check_normed(checker, op, x, N, C);
    checker.elements("rstd", op.rstd, DType::kFloat32, N);
    checker.tensor("weight", op.weight, x, {C});
    if (op.bias) {
      checker.elements("mean", op.mean, DType::kFloat32, N);
      checker.tensor("bias", op.bias, x, {C});
    } else {
      check_absent(checker, "bias", {{"mean", &op.mean}});
    }
  } else {
    checker.require(has_branch, "neither a branch nor a weight is given: nothing to do");
    check_absent(checker, "weight",
                 {{"normed", &op.normed},
                  {"normed_fp8.rows", &op.normed_fp8.rows},
                  {"mean", &op.mean},
                  {"rstd", &op.rstd},
                  {"bias", &op.bias}});
  }
  checker.dropout(op.dropout);
}
Operation operation_of(const ResidualNormForward& op) {
  const Tensor& rows = op.residual ? op.residual : op.residual_out ? op.residual_out : op.branch;
  return rows_operation("residual_norm_forward", rows,
                        bytes_of({op.normed, op.normed_fp8.rows, op.residual_out, op.mean, op.rstd,
                                  op.residual, op.branch, op.weight, op.bias}) +
                            bias_bytes(op.branch_bias, op.bias_period, rows));
}

void check(const ResidualNormBackward& op) {
  const Checker checker("residual_norm_backward");
  checker.model_type("dresidual", op.dresidual);
  checker.rank("dresidual", op.dresidual, 2, "(N,C)");
  const Tensor& of_model = op.weight ? op.weight : op.dbranch;
  if (of_model) checker.model_type(op.weight ? "weight" : "dbranch", of_model);
  const DType x = (of_model ? of_model : op.dresidual).dtype();
  const DType r = stream_type(op.dresidual, x);
  const int64_t N = num_rows(op.dresidual), C = num_columns(op.dresidual);
  checker.rows("dresidual", op.dresidual, r, N, C);
  if (op.dresidual_in) checker.rows("dresidual_in", op.dresidual_in, r, N, C);
  if (op.dbranch) checker.rows("dbranch", op.dbranch, x, N, C);
  checker.require(
      op.dbranch || op.dbranch_bias.empty() || r == x,
      "dbranch_bias is given, but dbranch, whose rows it sums, is empty; leave it out where "
      "the residual stream has the model's type only");
  checker.require(op.dbranch.empty() || op.dbranch.data() != op.dresidual.data(),
                  "dbranch and dresidual are the same memory; leave dbranch empty where p == 0");
  checker.require(op.dropout.p == 0.0F || op.dbranch,
                  "dropout is given, but dbranch, which it applies to, is empty");
  check_branch_bias(checker, "dbranch_bias", op.dbranch_bias, DType::kFloat32, C, op.bias_period,
                    op.first_row);
  check_positions(checker, op.document_bounds, op.dbranch_bias, N, op.bias_period, op.first_row);
  if (op.weight) {
    checker.tensor("weight", op.weight, x, {C});
    checker.rows("dnormed", op.dnormed, x, N, C);
    checker.rows("residual", op.residual, r, N, C);
    checker.elements("rstd", op.rstd, DType::kFloat32, N);
    checker.tensor("dweight", op.dweight, DType::kFloat32, {C});
    if (op.mean) {
      checker.elements("mean", op.mean, DType::kFloat32, N);
      checker.tensor("dbias", op.dbias, DType::kFloat32, {C});
    } else {
      check_absent(checker, "mean", {{"dbias", &op.dbias}});
    }
  } else {
    checker.rows("dresidual_in", op.dresidual_in, r, N, C);
    check_absent(checker, "weight",
                 {{"dnormed", &op.dnormed},
                  {"residual", &op.residual},
                  {"mean", &op.mean},
                  {"rstd", &op.rstd},
                  {"dweight", &op.dweight},
                  {"dbias", &op.dbias}});
  }
  checker.dropout(op.dropout);
}
Operation operation_of(const ResidualNormBackward& op) {
  // The gradient of a table of positions is written whole.
  return rows_operation("residual_norm_backward", op.dresidual,
                        bytes_of({op.dresidual, op.dbranch, op.dnormed, op.dresidual_in,
                                  op.residual, op.mean, op.rstd, op.weight}) +
                            sum_bytes({op.dbranch_bias, op.dweight, op.dbias}, op.accumulate));
}

}  // namespace weft
