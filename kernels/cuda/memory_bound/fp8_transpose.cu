// Transposing what is in fp8 already: a block takes a tile of 128 x 128 bytes, a thread four rows
// of sixteen bytes.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/memory_bound/fp8.cuh"
#include "kernels/operations/fp8.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 128;
constexpr int kRows = 4, kColumns = 16;  // A thread has so many.
constexpr int kThreadsOfRow = kTile / kColumns;
constexpr int kRowsOfPiece = 16;  // what a thread stores at once of a transposed row
constexpr int kPiecesOfColumn = kTile / kRowsOfPiece;
static_assert(kThreads == kThreadsOfRow * (kTile / kRows));

// The transposed tile. The place of a column's pieces is changed by the column, so that the threads
// of a warp, which write the same column of their own sixteen, write to different banks.
struct Tile {
  uint4 pieces[kTile][kPiecesOfColumn];

  static __device__ int place(int column, int piece) {
    return piece ^ (column / kColumns % kPiecesOfColumn);
  }
  __device__ void set(int column, int word, unsigned value) {
    reinterpret_cast<unsigned*>(&pieces[column][place(column, word / 4)])[word % 4] = value;
  }
  __device__ uint4 get(int column, int piece) const { return pieces[column][place(column, piece)]; }
};

// N and C are multiples of 16.
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(uint8_t* transposed, const uint8_t* rows, int64_t N, int64_t C) {
  __shared__ Tile tile;
  const int64_t first_column = blockIdx.x * static_cast<int64_t>(kTile);
  const int64_t first_row = blockIdx.y * static_cast<int64_t>(kTile);
  const int s = threadIdx.x % kThreadsOfRow, w = threadIdx.x / kThreadsOfRow;
  const int64_t column = first_column + s * kColumns, row = first_row + w * kRows;
  if (row < N && column < C) {
    uint4 read[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      read[r] = *reinterpret_cast<const uint4*>(rows + (row + r) * C + column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint2 bytes[kRows];
      unsigned words[kColumns / 2];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        bytes[r] = half == 0 ? make_uint2(read[r].x, read[r].y) : make_uint2(read[r].z, read[r].w);
      transpose(bytes, words);
#pragma unroll
      for (int c = 0; c < kColumns / 2; ++c)
        tile.set(s * kColumns + half * (kColumns / 2) + c, w, words[c]);
    }
  }
  __syncthreads();
  const int piece = threadIdx.x % kPiecesOfColumn;
  const int64_t at = first_row + piece * kRowsOfPiece;
#pragma unroll
  for (int c = threadIdx.x / kPiecesOfColumn; c < kTile; c += kThreads / kPiecesOfColumn) {
    if (first_column + c < C && at < N)
      *reinterpret_cast<uint4*>(transposed + (first_column + c) * N + at) = tile.get(c, piece);
  }
}

}  // namespace

void run(const Context& context, const TransposeFp8& op) {
  constexpr const char* kName = "transpose_fp8";
  const int64_t N = num_rows(op.rows), C = num_columns(op.rows);
  require_multiple(kName, "the number of rows", N, 16);
  require_multiple(kName, "the number of columns", C, 16);
  require_aligned(kName, {op.transposed, op.rows});
  const dim3 grid(grid_size(ceil_div(C, kTile)), static_cast<unsigned>(ceil_div(N, kTile)));
  transpose_kernel<<<grid, kThreads, 0, context.stream>>>(op.transposed.as<uint8_t>(),
                                                          op.rows.as<const uint8_t>(), N, C);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
