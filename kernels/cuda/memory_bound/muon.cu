// Matrices of Muon, out of flat fp32 memory into batches of Newton-Schulz iterations, and back. The
// momentum and the update of weights stand beside AdamW (optimizer.cu), the products beside those
// of linear layers (linear.cpp).
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda_scratch.h"
#include "kernels/operations/muon.h"

namespace weft::cuda {
namespace {

constexpr int kTile = 64;  // rows and columns that a block moves, through shared memory
constexpr int kThreads = 256;
constexpr int kRowsAtATime = kThreads / kTile;
constexpr int kNumPartials = 256;
static_assert(kNumPartials * sizeof(float) <= kSumScratchBytes);

// Where an element of a MatrixView lies.
struct Place {
  float* data;
  int64_t columns, piece_stride, group_stride, first_row;
  int run_rows;

  explicit Place(const MatrixView& view)
      : data(view.data.as<float>()),
        columns(view.columns),
        piece_stride(view.num_groups * view.group_rows * view.columns),
        group_stride(view.group_rows * view.columns),
        first_row(view.first_row),
        run_rows(static_cast<int>(view.run_rows)) {}
  __device__ float* at(int row, int column) const {
    const int piece = column / static_cast<int>(columns);
    return data + piece * piece_stride + row / run_rows * group_stride +
           (first_row + row % run_rows) * columns + (column - piece * static_cast<int>(columns));
  }
};

// Block i leaves the sum of squares of every gridDim.x-th row from i on.
__global__ void sum_of_squares_kernel(float* partials, Place place, int rows, int columns) {
  float sum[1] = {};
  for (int row = static_cast<int>(blockIdx.x); row < rows; row += kNumPartials) {
    for (int column = static_cast<int>(threadIdx.x); column < columns; column += kThreads) {
      const float value = *place.at(row, column);
      sum[0] += value * value;
    }
  }
  block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum[0];
}

// A block moves a tile of rows and columns of the matrix in fp32.
template <typename T, bool kTransposed>
__global__ void normalize_kernel(T* out, const float* partials, Place place, int rows,
                                 int columns) {
  __shared__ float tile[kTile][kTile + 1];
  float sum[1] = {partials[threadIdx.x]};
  block_sum(sum);
  const float scale = 1.0F / fmaxf(sqrtf(sum[0]), 1e-7F);
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
  const int first_column = static_cast<int>(blockIdx.x) * kTile;
  if constexpr (!kTransposed) {
    for (int i = y; i < kTile; i += kRowsAtATime) {
      const int row = first_row + i, column = first_column + x;
      if (row < rows && column < columns)
        out[static_cast<int64_t>(row) * columns + column] =
            static_cast<T>(*place.at(row, column) * scale);
    }
    return;
  }
  for (int i = y; i < kTile; i += kRowsAtATime) {
    const int row = first_row + i, column = first_column + x;
    if (row < rows && column < columns) tile[i][x] = *place.at(row, column) * scale;
  }
  __syncthreads();
  for (int i = y; i < kTile; i += kRowsAtATime) {
    const int row = first_row + x, column = first_column + i;
    if (row < rows && column < columns)
      out[static_cast<int64_t>(column) * rows + row] = static_cast<T>(tile[x][i]);
  }
}

// The other way round. `inp` begins at the element that becomes the first one of the matrix in
// fp32, and its rows are `inp_columns` long.
template <typename T, bool kTransposed>
__global__ void scale_kernel(Place place, const T* inp, int64_t inp_columns, int rows, int columns,
                             float scale) {
  __shared__ float tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
  const int first_column = static_cast<int>(blockIdx.x) * kTile;
  if constexpr (kTransposed) {
    for (int i = y; i < kTile; i += kRowsAtATime) {
      const int row = first_row + x, column = first_column + i;
      if (row < rows && column < columns)
        tile[i][x] = static_cast<float>(inp[column * inp_columns + row]);
    }
    __syncthreads();
  }
  for (int i = y; i < kTile; i += kRowsAtATime) {
    const int row = first_row + i, column = first_column + x;
    if (row >= rows || column >= columns) continue;
    const float value =
        kTransposed ? tile[x][i] : static_cast<float>(inp[row * inp_columns + column]);
    *place.at(row, column) = value * scale;
  }
}

dim3 grid_of(const MatrixView& view) {
  return {grid_size(ceil_div(view.num_columns(), kTile)),
          grid_size(ceil_div(view.num_rows(), kTile))};
}

}  // namespace

void run(const Context& context, const NormalizeMatrix& op) {
  constexpr const char* kName = "normalize_matrix";
  auto* partials =
      static_cast<float*>(context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)));
  const Place place(op.inp);
  const int rows = static_cast<int>(op.inp.num_rows()),
            columns = static_cast<int>(op.inp.num_columns());
  sum_of_squares_kernel<<<kNumPartials, kThreads, 0, context.stream>>>(partials, place, rows,
                                                                       columns);
  dispatch(op.out.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto launch = [&](auto kernel) {
      kernel<<<grid_of(op.inp), kThreads, 0, context.stream>>>(op.out.as<T>(), partials, place,
                                                               rows, columns);
    };
    op.transposed ? launch(normalize_kernel<T, true>) : launch(normalize_kernel<T, false>);
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const ScaleMatrix& op) {
  const Place place(op.out);
  const int64_t inp_columns = num_columns(op.inp);
  const int64_t first = op.transposed ? op.first_column * inp_columns + op.first_row
                                      : op.first_row * inp_columns + op.first_column;
  dispatch(op.inp.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto launch = [&](auto kernel) {
      kernel<<<grid_of(op.out), kThreads, 0, context.stream>>>(
          place, op.inp.as<const T>() + first, inp_columns, static_cast<int>(op.out.num_rows()),
          static_cast<int>(op.out.num_columns()), static_cast<float>(op.scale));
    };
    op.transposed ? launch(scale_kernel<T, true>) : launch(scale_kernel<T, false>);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
