#include "kernels/operations/muon.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_view(const Checker& checker, const char* name, const MatrixView& view) {
  checker.elements(name, view.data, DType::kFloat32,
                   view.num_pieces * view.num_groups * view.group_rows * view.columns);
  checker.require(
      view.first_row >= 0 && view.run_rows > 0 && view.first_row + view.run_rows <= view.group_rows,
      std::string(name) + " has rows " + std::to_string(view.first_row) + " to " +
          std::to_string(view.first_row + view.run_rows) + " of groups of " +
          std::to_string(view.group_rows));
}

// Moves a matrix between fp32 and x.
Operation matrix_operation(const char* name, const MatrixView& view, const Tensor& x, int passes) {
  const double elements = product({view.num_rows(), view.num_columns()});
  return {.name = name,
          .dimensions = "rows columns",
          .sizes = {view.num_rows(), view.num_columns()},
          .dtype = x.dtype(),
          .bytes = elements * static_cast<double>(passes * 4 + size_bytes(x.dtype()))};
}

}  // namespace

void check(const MuonMomentum& op) {
  const Checker checker("muon_momentum");
  const int64_t n = op.m.num_elements();
  checker.elements("m", op.m, DType::kFloat32, n);
  checker.whole_blocks("m", op.m);
  checker.elements("grad", op.grad, DType::kFloat32, n);
  checker.elements("clip", op.clip, DType::kFloat32, 2);
}
Operation operation_of(const MuonMomentum& op) {
  return flat_operation("muon_momentum", op.m.num_elements(), DType::kFloat32,
                        2 * bytes_of({op.m, op.grad}));
}

void check(const NormalizeMatrix& op) {
  const Checker checker("normalize_matrix");
  check_view(checker, "inp", op.inp);
  checker.model_type("out", op.out);
  const int64_t rows = op.inp.num_rows(), columns = op.inp.num_columns();
  checker.rows("out", op.out, op.out.dtype(), op.transposed ? columns : rows,
               op.transposed ? rows : columns);
}
// The sum of squares reads the matrix once more.
Operation operation_of(const NormalizeMatrix& op) {
  return matrix_operation("normalize_matrix", op.inp, op.out, 2);
}

void check(const ScaleMatrix& op) {
  const Checker checker("scale_matrix");
  check_view(checker, "out", op.out);
  checker.model_type("inp", op.inp);
  checker.rank("inp", op.inp, 2, "(rows, columns)");
  const int64_t rows = op.transposed ? num_columns(op.inp) : num_rows(op.inp);
  const int64_t columns = op.transposed ? num_rows(op.inp) : num_columns(op.inp);
  checker.require(op.first_row >= 0 && op.first_row + op.out.num_rows() <= rows &&
                      op.first_column >= 0 && op.first_column + op.out.num_columns() <= columns,
                  "inp is " + text_of(op.inp) + ", which does not hold the part that out takes");
}
Operation operation_of(const ScaleMatrix& op) {
  return matrix_operation("scale_matrix", op.out, op.inp, 1);
}

void check(const BatchedProduct& op) {
  const Checker checker("batched_product");
  checker.model_type("out", op.out);
  checker.rank("out", op.out, 3, "(B,M,N)");
  checker.rank("a", op.a, 3, "(B,M,K)");
  const DType x = op.out.dtype();
  const int64_t B = op.out.shape(0), M = op.out.shape(1), N = op.out.shape(2), K = op.a.shape(2);
  checker.tensor("a", op.a, x, {B, M, K});
  if (op.transposes_b) {
    checker.tensor("b", op.b, x, {B, N, K});
  } else {
    checker.tensor("b", op.b, x, {B, K, N});
  }
  if (op.c) checker.tensor("c", op.c, x, {B, M, N});
  for (const Tensor& other : {op.a, op.b, op.c})
    checker.require(op.out.data() != other.data(), "out is one of the factors, or c");
}
Operation operation_of(const BatchedProduct& op) {
  const int64_t B = op.out.shape(0), M = op.out.shape(1), N = op.out.shape(2), K = op.a.shape(2);
  return {.name = "batched_product",
          .dimensions = "B M N K",
          .sizes = {B, M, N, K},
          .dtype = op.out.dtype(),
          .flops = 2 * product({B, M, N, K}),
          .bytes = bytes_of({op.out, op.a, op.a.data() == op.b.data() ? Tensor() : op.b,
                             op.c.data() == op.b.data() ? Tensor() : op.c})};
}

void check(const MuonUpdate& op) {
  const Checker checker("muon_update");
  checker.model_type("param", op.param);
  checker.whole_blocks("param", op.param);
  const int64_t n = op.param.num_elements();
  if (op.param.dtype() == DType::kBFloat16) {
    checker.elements("remainder", op.remainder, DType::kUInt8, remainder_bytes(n));
  } else {
    checker.elements("master", op.master, DType::kFloat32, n);
  }
  checker.elements("update", op.update, DType::kFloat32, n);
}
Operation operation_of(const MuonUpdate& op) {
  const bool is_own_master = op.master.data() == op.param.data();
  const Tensor master = is_own_master ? Tensor{} : op.master;
  const bool reads_param = op.remainder || is_own_master;
  return flat_operation("muon_update", op.param.num_elements(), op.param.dtype(),
                        2 * bytes_of({master, op.remainder}) +
                            (reads_param ? 2 : 1) * bytes_of({op.param}) + bytes_of({op.update}));
}

}  // namespace weft
