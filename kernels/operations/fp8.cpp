#include "kernels/operations/fp8.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

void check(const Quantize& op) {
  const Checker checker("quantize");
  const Tensor& like = op.inp ? op.inp : op.pre;
  checker.model_type(op.inp ? "inp" : "pre", like);
  checker.rank("inp", like, 2, "(N,C)");
  const int64_t N = num_rows(like), C = num_columns(like);
  if (op.pre) checker.rows("pre", op.pre, like.dtype(), N, C);
  if (op.value) checker.rows("value", op.value, like.dtype(), N, C);
  checker.require(op.rows || op.transposed, "neither rows nor transposed are asked for");
  const DType format = (op.rows ? op.rows : op.transposed).dtype();
  checker.require(is_float8(format), std::string("fp8 is ") + name_of(format));
  if (op.rows) checker.tensor("rows", op.rows, format, {N, C});
  if (op.transposed) checker.tensor("transposed", op.transposed, format, {C, N});
  checker.tensor("scaling", op.scaling, DType::kFloat32, {2});
  if (op.amax) checker.tensor("amax", op.amax, DType::kFloat32, {1});
  if (op.column_sums) checker.tensor("column_sums", op.column_sums, DType::kFloat32, {C});
}
// A scale that is derived costs a pass of its own over what is read.
Operation operation_of(const Quantize& op) {
  const Tensor& like = op.inp ? op.inp : op.pre;
  const Tensor& fp8 = op.rows ? op.rows : op.transposed;
  const double num_reads = op.derives_scale ? 2 : 1;
  return {.name = "quantize",
          .dimensions = "N C",
          .sizes = {num_rows(like), num_columns(like)},
          .dtype = fp8.dtype(),
          .bytes = num_reads * bytes_of({op.inp, op.pre}) +
                   bytes_of({op.rows, op.transposed, op.value, op.column_sums})};
}

void check(const TransposeFp8& op) {
  const Checker checker("transpose_fp8");
  const Tensor& rows = op.rows;
  checker.require(rows.rank() == 2 && is_float8(rows.dtype()),
                  "rows is " + text_of(rows) + ", should be fp8 (N,C)");
  checker.tensor("transposed", op.transposed, rows.dtype(), {num_columns(rows), num_rows(rows)});
}
Operation operation_of(const TransposeFp8& op) {
  return rows_operation("transpose_fp8", op.rows, bytes_of({op.transposed, op.rows}));
}

void check(const Fp8Product& op) {
  const Checker checker("fp8_product");
  checker.require(op.a.rank() == 2 && is_float8(op.a.dtype()),
                  "a is " + text_of(op.a) + ", should be fp8 (M,K)");
  checker.require(op.b.rank() == 2 && is_float8(op.b.dtype()),
                  "b is " + text_of(op.b) + ", should be fp8 (N,K)");
  checker.require(op.a.dtype() == DType::kFloat8E4M3 || op.b.dtype() == DType::kFloat8E4M3,
                  "a and b are e5m2; there is no such product");
  const int64_t M = op.a.shape(0), N = op.b.shape(0), K = op.a.shape(1);
  checker.tensor("b", op.b, op.b.dtype(), {N, K});
  checker.model_type("out", op.out);
  checker.rows("out", op.out, op.out.dtype(), M, N);
  checker.require(!op.accumulate || op.out.dtype() == DType::kFloat32,
                  "out is " + text_of(op.out) + "; only fp32 accumulates");
  if (op.bias) checker.tensor("bias", op.bias, op.out.dtype(), {N});
  checker.tensor("a_scaling", op.a_scaling, DType::kFloat32, {2});
  checker.tensor("b_scaling", op.b_scaling, DType::kFloat32, {2});
}
Operation operation_of(const Fp8Product& op) {
  const int64_t M = op.a.shape(0), N = op.b.shape(0), K = op.a.shape(1);
  return {.name = "fp8_product",
          .dimensions = "M N K",
          .sizes = {M, N, K},
          .dtype = op.a.dtype(),
          .flops = 2 * product({M, N, K}),
          .bytes = sum_bytes({op.out}, op.accumulate) + bytes_of({op.a, op.b, op.bias})};
}

void check(const UpdateFp8Scaling& op) {
  const Checker checker("update_fp8_scaling");
  const int64_t length = op.history_len;
  checker.require(op.states.rank() == 2 && length > 0 && op.states.shape(1) >= 2 + length,
                  "states is " + text_of(op.states) + ", should be (n,R) with R >= 2 + " +
                      std::to_string(length));
  const int64_t n = op.states.shape(0);
  checker.tensor("states", op.states, DType::kFloat32, {n, op.states.shape(1)});
  checker.tensor("amaxes", op.amaxes, DType::kFloat32, {n});
  checker.require(is_float8(op.format), std::string("the format is ") + name_of(op.format));
  checker.require(op.slot >= 0 && op.slot < length,
                  "slot " + std::to_string(op.slot) + " of a history of " + std::to_string(length));
}
// For each tensor an amax is read and becomes 0, a place of the history and both scales are
// written, and the history is read where its maximum is used.
Operation operation_of(const UpdateFp8Scaling& op) {
  const int64_t n = op.states.shape(0), num_read = op.uses_maximum ? op.history_len : 0;
  return {.name = "update_fp8_scaling",
          .dimensions = "n history",
          .sizes = {n, op.history_len},
          .dtype = op.states.dtype(),
          .bytes = product({n, 2 + 1 + 2 + num_read, size_bytes(op.states.dtype())})};
}

}  // namespace weft
