// Newton-Schulz iterations: matrices in and out of flat fp32 memory, and batches of products. The
// momentum and the update of weights stand beside AdamW (optimizer.cpp).
#include "kernels/operations/muon.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kNumNormPieces = 256;  // pieces of the sum of squares, for any number of threads
constexpr int64_t kRowsPerTask = 16;

WEFT_VECTOR_CLONES double sum_of_row_squares(const float* values, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

WEFT_VECTOR_CLONES void scale_row(float* out, const float* inp, float scale, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = inp[i] * scale;
}

WEFT_VECTOR_CLONES void scale_and_add_row(float* out, float alpha, const float* c, float beta,
                                          int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = alpha * out[i] + beta * c[i];
}

double frobenius_norm(const Context& context, const MatrixView& matrix) {
  std::array<double, kNumNormPieces> pieces{};
  const int64_t rows = matrix.num_rows();
  const int64_t grain = (rows + kNumNormPieces - 1) / kNumNormPieces;
  context.for_each_range(rows, grain, [&](int64_t begin, int64_t end, int) {
    double& sum = pieces[static_cast<size_t>(begin / grain)];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t piece = 0; piece < matrix.num_pieces; ++piece)
        sum += sum_of_row_squares(matrix.data.as<float>() + matrix.row_offset(row) +
                                      matrix.column_offset(piece * matrix.columns),
                                  matrix.columns);
    }
  });
  double total = 0;
  for (const double piece : pieces) total += piece;
  return std::sqrt(total);
}

Tensor matrix_at(const Tensor& batch, int64_t idx) {
  const int64_t rows = batch.shape(1), columns = batch.shape(2);
  auto* data = batch.as<char>() + idx * rows * columns * size_bytes(batch.dtype());
  return {data, batch.dtype(), {rows, columns}};
}

}  // namespace

void run(const Context& context, const NormalizeMatrix& op) {
  const MatrixView& inp = op.inp;
  const float scale = 1.0F / std::max(static_cast<float>(frobenius_norm(context, inp)), 1e-7F);
  const int64_t row_length = num_columns(op.out);
  const float* data = inp.data.as<float>();
  context.need_scratch("normalize_matrix", scratch_floats(op));
  context.for_each_range(
      num_rows(op.out), kRowsPerTask, [&](int64_t begin, int64_t end, int thread) {
        float* buffer = context.scratch(thread);
        for (int64_t row = begin; row < end; ++row) {
          if (op.transposed) {
            const float* column = data + inp.column_offset(row);
            for (int64_t i = 0; i < row_length; ++i) buffer[i] = column[inp.row_offset(i)] * scale;
          } else {
            for (int64_t piece = 0; piece < inp.num_pieces; ++piece)
              scale_row(buffer + piece * inp.columns,
                        data + inp.row_offset(row) + inp.column_offset(piece * inp.columns), scale,
                        inp.columns);
          }
          store_row(op.out, row * row_length, row_length, buffer);
        }
      });
}
int64_t scratch_floats(const NormalizeMatrix& op) { return num_columns(op.out); }

void run(const Context& context, const ScaleMatrix& op) {
  const MatrixView& out = op.out;
  const int64_t inp_columns = num_columns(op.inp);
  const auto scale = static_cast<float>(op.scale);
  context.need_scratch("scale_matrix", scratch_floats(op));
  context.for_each_range(out.num_rows(), kRowsPerTask, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t piece = 0; piece < out.num_pieces; ++piece) {
        const int64_t first_column = op.first_column + piece * out.columns;
        float* target =
            out.data.as<float>() + out.row_offset(row) + out.column_offset(piece * out.columns);
        if (!op.transposed) {
          const float* values = read_row(op.inp, (op.first_row + row) * inp_columns + first_column,
                                         out.columns, buffer);
          scale_row(target, values, scale, out.columns);
          continue;
        }
        for (int64_t i = 0; i < out.columns; ++i)
          target[i] =
              scale *
              *read_row(op.inp, (first_column + i) * inp_columns + op.first_row + row, 1, buffer);
      }
    }
  });
}
int64_t scratch_floats(const ScaleMatrix& op) { return op.out.columns; }

void run(const Context& context, const BatchedProduct& op) {
  context.need_scratch("batched_product", kGemmScratchFloats);
  const int64_t M = op.out.shape(1), N = op.out.shape(2), K = op.a.shape(2);
  const bool is_in_place = op.out.dtype() == DType::kFloat32;
  for (int64_t i = 0; i < op.out.shape(0); ++i) {
    const Tensor out = matrix_at(op.out, i), c = op.c ? matrix_at(op.c, i) : Tensor();
    multiply(context, is_in_place ? out : Tensor(), {matrix_at(op.a, i), K, false},
             {matrix_at(op.b, i), op.transposes_b ? K : N, op.transposes_b}, M, N, K, false,
             [&](const Tile& tile) {
               for (int64_t r = 0; r < tile.num_rows; ++r) {
                 float* row = tile.values + r * tile.stride;
                 const int64_t first = (tile.row + r) * N + tile.column;
                 if (c) {
                   scale_and_add_row(row, op.alpha,
                                     read_row(c, first, tile.num_columns, tile.buffer), op.beta,
                                     tile.num_columns);
                 } else if (op.alpha != 1) {
                   scale_row(row, row, op.alpha, tile.num_columns);
                 }
                 store_row(out, first, tile.num_columns, row);
               }
             });
  }
}

}  // namespace weft::cpu
