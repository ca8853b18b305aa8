// Muon: the update of a matrix is its momentum, made orthogonal by Newton-Schulz iterations.
//
//   direction = the momentum, or with Nesterov's the gradient moved towards it     MuonMomentum
//   X = direction / |direction|                                                   NormalizeMatrix
//   X = a X + (b X X' + c (X X')^2) X, several times                               BatchedProduct
//   update = X * scale                                                            ScaleMatrix
//   master = master * (1 - lr * weight_decay) - lr * update                        MuonUpdate
//
// [Jordan et al. 2024, kellerjordan.github.io/posts/muon; Emerging-Optimizers, muon_utils.py]
#pragma once

#include <cstdint>

#include "kernels/numbers/split_master.h"
#include "kernels/operations/operation.h"

namespace weft {

// m += (1 - beta) * (g - m), where g is the gradient times clip[1]. The gradient becomes the
// direction of the update: m, or with `nesterov` g + beta * (m - g).
struct MuonMomentum {
  Tensor m = {};     // (n) fp32; n is a multiple of kOptimizerBlock
  Tensor grad = {};  // (n) fp32, read and written
  Tensor clip = {};  // (2) fp32, from ClipCoefficient
  double beta = 0.95;
  bool nesterov = false;
};

// A matrix in flat fp32 memory. It may consist of pieces side by side, as tensor-parallel ranks
// have them, and its rows may be runs of the rows that lie there:
//
//   data      | piece 0: all rows x columns | piece 1 | ...
//   a piece   | group 0: group_rows rows | group 1 | ...
//   a group   | ... | first_row: run_rows rows | ...       these are the rows of the matrix
struct MatrixView {
  Tensor data = {};
  int64_t num_pieces = 1;
  int64_t columns = 0;  // of a piece
  int64_t num_groups = 1, group_rows = 0, first_row = 0, run_rows = 0;

  int64_t num_rows() const { return num_groups * run_rows; }
  int64_t num_columns() const { return num_pieces * columns; }
  int64_t num_elements() const { return num_rows() * num_columns(); }
  // The place of an element is that of its row plus that of its column.
  int64_t row_offset(int64_t row) const {
    return (row / run_rows * group_rows + first_row + row % run_rows) * columns;
  }
  int64_t column_offset(int64_t column) const {
    return column / columns * (num_groups * group_rows * columns) + column % columns;
  }
};

// out = inp / max(|inp|, 1e-7), |inp| being the root of the sum of squares; with `transposed` the
// transposed matrix.
struct NormalizeMatrix {
  Tensor out = {};  // (rows, columns) x, or (columns, rows); written
  MatrixView inp = {};
  bool transposed = false;
};

// out = scale * the part of inp that begins at (first_row, first_column), of the transposed inp
// where `transposed` is set.
struct ScaleMatrix {
  MatrixView out = {};  // written
  Tensor inp = {};      // (rows, columns) x
  int64_t first_row = 0, first_column = 0;
  bool transposed = false;
  double scale = 1;
};

// out = alpha * a * b + beta * c for each matrix of the batch, b transposed where `transposes_b`
// is set. `out` is none of the others.
struct BatchedProduct {
  Tensor out = {};  // (B,M,N) x, written
  Tensor a = {};    // (B,M,K) x
  Tensor b = {};    // (B,K,N) x, or (B,N,K)
  Tensor c = {};    // (B,M,N) x, or empty
  float alpha = 1, beta = 0;
  bool transposes_b = false;
  bool operator==(const BatchedProduct&) const = default;
};

// master = master * (1 - lr * weight_decay) - lr * update, and the weights from it. Masters are
// those of AdamW (optimizer.h).
struct MuonUpdate {
  Tensor param = {};   // (n) x, written; fp32 models: same as `master`
  Tensor master = {};  // (n) fp32; empty for bf16 models
  Tensor remainder = {};
  Tensor update = {};  // (n) fp32
  double lr = 0, weight_decay = 0;
};

#define WEFT_MUON_OPERATIONS(X) \
  X(MuonMomentum) X(NormalizeMatrix) X(ScaleMatrix) X(BatchedProduct) X(MuonUpdate)
WEFT_MUON_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
