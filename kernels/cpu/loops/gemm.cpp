#include "kernels/cpu/loops/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "kernels/cpu/loops/rows.h"

namespace weft::cpu {

namespace {

struct Panel {
  const float* data;
  int64_t stride;
};

// An fp32 view of a piece of a factor: rows [row, row + num_rows) and columns [column, ...) of its
// memory.
Panel panel_of(const Factor& factor, int64_t row, int64_t num_rows, int64_t column,
               int64_t num_columns, float* buffer) {
  const int64_t stride = factor.num_columns;
  if (factor.tensor.dtype() == DType::kFloat32) {
    return {factor.tensor.as<float>() + row * stride + column, stride};
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    widen_row(buffer + r * num_columns, factor.tensor, (row + r) * stride + column, num_columns);
  }
  return {buffer, num_columns};
}

}  // namespace

TileGrid::TileGrid(int64_t M, int64_t N) {
  constexpr int64_t kEnoughTiles = 32;
  const auto num_tiles = [&] { return ((M + rows - 1) / rows) * ((N + columns - 1) / columns); };
  while (num_tiles() < kEnoughTiles && (rows > 64 || columns > 128)) {
    if (columns > 128 && columns >= rows) {
      columns /= 2;
    } else {
      rows /= 2;
    }
  }
}

void multiply_tile(const Tile& tile, const Factor& a, const Factor& b, int64_t K, bool accumulate,
                   float* panels) {
  const bool converts = a.tensor.dtype() != DType::kFloat32 || b.tensor.dtype() != DType::kFloat32;
  const int64_t depth = converts ? kPanelDepth : K;
  for (int64_t k = 0; k < K; k += depth) {
    const int64_t num_k = std::min(depth, K - k);
    const Panel pa = a.transposed ? panel_of(a, k, num_k, tile.row, tile.num_rows, panels)
                                  : panel_of(a, tile.row, tile.num_rows, k, num_k, panels);
    float* b_buffer = panels + kMaxTileRows * kPanelDepth;
    const Panel pb = b.transposed ? panel_of(b, tile.column, tile.num_columns, k, num_k, b_buffer)
                                  : panel_of(b, k, num_k, tile.column, tile.num_columns, b_buffer);
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(tile.num_rows),
                static_cast<blasint>(tile.num_columns), static_cast<blasint>(num_k), 1.0F, pa.data,
                static_cast<blasint>(pa.stride), pb.data, static_cast<blasint>(pb.stride),
                accumulate || k > 0 ? 1.0F : 0.0F, tile.values, static_cast<blasint>(tile.stride));
  }
}

}  // namespace weft::cpu
