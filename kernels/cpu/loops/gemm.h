// Matrix products in fixed tiles, one single-threaded OpenBLAS call each.
//
// OpenBLAS's own threads are off (create_cpu_backend sets one thread): they would compete with
// ours, and they cut a product by their number. Tiles here follow from the shape alone, so the bits
// of a product do not depend on the number of threads. They do depend on the processor, for which
// OpenBLAS picks its inner loops.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops/context.h"
#include "kernels/numbers/tensor.h"

namespace weft::cpu {

// A factor as it lies in memory, row-major with `num_columns` columns. It enters the product
// transposed if `transposed` is set.
struct Factor {
  Tensor tensor;
  int64_t num_columns = 0;
  bool transposed = false;
};

// One finished piece of the product in fp32: rows [row, row + num_rows) and columns [column,
// column + num_columns).
struct Tile {
  int64_t row = 0, column = 0, num_rows = 0, num_columns = 0;
  float* values = nullptr;
  int64_t stride = 0;
  float* buffer = nullptr;  // scratch of the tile's consumer: 2 * kMaxTileColumns floats
};

constexpr int64_t kMaxTileRows = 256;
constexpr int64_t kMaxTileColumns = 512;
// bf16 and fp16 factors are converted in panels of this depth. With the tiles above, two panels and
// a tile take 2 MiB, so they stay in a core's L2 cache.
constexpr int64_t kPanelDepth = 512;

// Each thread needs this much scratch.
constexpr int64_t kGemmScratchFloats = (kMaxTileRows + kMaxTileColumns) * kPanelDepth +
                                       kMaxTileRows * kMaxTileColumns + 2 * kMaxTileColumns;

// Multiplies a (M,K) and b (K,N). `out` (M,N) fp32 receives the product, added to what is there
// where `accumulate`; when out is empty, the tiles live in scratch only. finish(tile) is called
// once per tile, in the tile's thread.
template <typename Finish>
void multiply(const Context& context, Tensor out, const Factor& a, const Factor& b, int64_t M,
              int64_t N, int64_t K, bool accumulate, const Finish& finish);

struct TileGrid {
  int64_t rows = kMaxTileRows, columns = kMaxTileColumns;
  // Chooses the largest tiles that still keep a few dozen threads busy.
  TileGrid(int64_t M, int64_t N);
};

// values (rows x columns, stride) = or += the tile's part of a * b.
void multiply_tile(const Tile& tile, const Factor& a, const Factor& b, int64_t K, bool accumulate,
                   float* panels);

template <typename Finish>
void multiply(const Context& context, Tensor out, const Factor& a, const Factor& b, int64_t M,
              int64_t N, int64_t K, bool accumulate, const Finish& finish) {
  const TileGrid grid(M, N);
  const int64_t num_row_tiles = (M + grid.rows - 1) / grid.rows;
  const int64_t num_column_tiles = (N + grid.columns - 1) / grid.columns;
  context.for_each(num_row_tiles * num_column_tiles, [&](int64_t i, int thread) {
    Tile tile;
    tile.row = i % num_row_tiles * grid.rows;
    tile.column = i / num_row_tiles * grid.columns;
    tile.num_rows = M - tile.row < grid.rows ? M - tile.row : grid.rows;
    tile.num_columns = N - tile.column < grid.columns ? N - tile.column : grid.columns;
    tile.buffer = context.scratch(thread);
    float* panels = tile.buffer + 2 * kMaxTileColumns;
    float* own = panels + (kMaxTileRows + kMaxTileColumns) * kPanelDepth;
    tile.values = out ? out.as<float>() + tile.row * N + tile.column : own;
    tile.stride = out ? N : tile.num_columns;
    multiply_tile(tile, a, b, K, accumulate, panels);
    finish(tile);
  });
}

}  // namespace weft::cpu
