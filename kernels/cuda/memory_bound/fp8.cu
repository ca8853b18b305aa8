// Quantizing: one pass over the numbers writes them in fp8 by rows and transposed, and their column
// sums and largest number. Where the scale follows from the largest number itself, a pass before it
// finds that. Numbers that are stored by rows alone are taken in the order of memory; else a block
// takes a tile.
#include <algorithm>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/memory_bound/fp8.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda_scratch.h"
#include "kernels/numbers/float8.h"
#include "kernels/operations/fp8.h"

namespace weft::cuda {
namespace {

using Kind = QuantizeKind;

constexpr int kThreads = 256;
constexpr int kTileRows = kQuantizeTileRows, kTileColumns = 128;
constexpr int kRows = 4, kColumns = 8;  // A thread has so many.
constexpr int kThreadsOfRow = kTileColumns / kColumns;
constexpr int kWordsOfColumn = kTileRows / kRows;
static_assert(kThreads == kThreadsOfRow * kWordsOfColumn);
constexpr int kPieces = 4;  // A thread has so many where there are no tiles.

template <Kind kKind>
__global__ void __launch_bounds__(kThreads)
    amax_kernel(unsigned* amax, QuantizeSource source, int64_t n) {
  LargestMagnitude<kKind> largest;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * 8;
#pragma unroll 4
  for (int64_t at = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * 8; at < n;
       at += stride) {
    QuantizePiece<kKind> piece;
    piece.load(source, at);
    float values[8];
    piece.values(source.activation, values);
    largest.add(piece, values);
  }
  raise_amax<kThreads>(amax, largest.bits());
}

template <Kind kKind, __nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads)
    quantize_rows_kernel(QuantizeTarget target, QuantizeSource source, int64_t n) {
  constexpr int64_t kStride = kThreads * 8;
  const float scale = scale_of_target(target, blockIdx.x == 0 && threadIdx.x == 0);
  const int64_t first = blockIdx.x * kPieces * kStride + threadIdx.x * 8;
  QuantizePiece<kKind> pieces[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i)
    if (first + i * kStride < n) pieces[i].load(source, first + i * kStride);
  unsigned largest_bits = 0;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int64_t at = first + i * kStride;
    if (at >= n) break;
    float values[8];
    pieces[i].values(source.activation, values);
    LargestMagnitude<kKind> largest;
    largest.add(pieces[i], values);
    largest_bits = max(largest_bits, largest.bits());
    if (target.value != nullptr) store_vec(target.value + at, pack<bf16>(values));
    if (!largest.is_finite()) infinite_to_nan(values);
    *reinterpret_cast<uint2*>(target.rows + at) = round_8<kFormat>(values, scale);
  }
  if (target.amax != nullptr) raise_amax<kThreads>(target.amax, largest_bits);
}

// A tile of the transposed matrix in shared memory: words of four rows, by columns. A word's place
// is changed by its column, so that the threads of a warp write to different banks; words 2i and 2i
// + 1 stay neighbours, so that four of them are read at once.
struct TransposedTile {
  uint4 words[kTileColumns][kWordsOfColumn / 4];

  // Returns the change of places in a column, which is even.
  static __device__ int change(int column) { return 2 * (column / kColumns % 8); }
  __device__ void set(int column, int word, unsigned value) {
    reinterpret_cast<unsigned*>(words[column])[word ^ change(column)] = value;
  }
  // Returns words 4i to 4i + 3.
  __device__ uint4 get(int column, int i) const {
    const uint4 piece = words[column][i ^ (change(column) / 4)];
    return change(column) % 4 == 0 ? piece : make_uint4(piece.z, piece.w, piece.x, piece.y);
  }
};

// A thread takes four rows of eight columns.
template <Kind kKind, __nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads, 4)
    quantize_tiles_kernel(QuantizeTarget target, QuantizeSource source, int64_t N, int64_t C) {
  __shared__ TransposedTile tile;
  __shared__ float sums[kThreads / 32][kTileColumns];
  const int s = threadIdx.x % kThreadsOfRow, w = threadIdx.x / kThreadsOfRow;
  const int64_t first_column = blockIdx.x * static_cast<int64_t>(kTileColumns);
  const int64_t first_row = blockIdx.y * static_cast<int64_t>(kTileRows);
  const int64_t column = first_column + s * kColumns, row = first_row + w * kRows;
  const float scale =
      scale_of_target(target, blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0);
  float column_sums[kColumns] = {};
  LargestMagnitude<kKind> largest;
  if (row < N && column < C) {  // both are multiples of 16
    QuantizePiece<kKind> pieces[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) pieces[r].load(source, (row + r) * C + column);
    float values[kRows][kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      pieces[r].values(source.activation, values[r]);
      largest.add(pieces[r], values[r]);
    }
    if (target.value != nullptr) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        store_vec(target.value + (row + r) * C + column, pack<bf16>(values[r]));
    }
    if (target.partial_sums != nullptr) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        column_sums[c] = (values[0][c] + values[1][c]) + (values[2][c] + values[3][c]);
    }
    if (!largest.is_finite()) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) infinite_to_nan(values[r]);
    }
    uint2 bytes[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      bytes[r] = round_8<kFormat>(values[r], scale);
      if (target.rows != nullptr)
        *reinterpret_cast<uint2*>(target.rows + (row + r) * C + column) = bytes[r];
    }
    if (target.transposed != nullptr) {
      unsigned words[kColumns];
      transpose(bytes, words);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) tile.set(s * kColumns + c, w, words[c]);
    }
  }
  if (target.partial_sums != nullptr) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float sum =
          column_sums[c] + __shfl_xor_sync(0xffffffffu, column_sums[c], kThreadsOfRow);
      if (threadIdx.x % 32 < kThreadsOfRow) sums[threadIdx.x / 32][s * kColumns + c] = sum;
    }
  }
  __syncthreads();
  if (target.transposed != nullptr) {
    constexpr int kThreadsOfColumn = kWordsOfColumn / 4;
    const int i = threadIdx.x % kThreadsOfColumn;
    const int64_t at = first_row + i * 4 * kRows;
#pragma unroll
    for (int c = threadIdx.x / kThreadsOfColumn; c < kTileColumns;
         c += kThreads / kThreadsOfColumn) {
      if (first_column + c < C && at < N)
        *reinterpret_cast<uint4*>(target.transposed + (first_column + c) * N + at) = tile.get(c, i);
    }
  }
  if (target.partial_sums != nullptr && threadIdx.x < kTileColumns &&
      first_column + threadIdx.x < C) {
    float sum = sums[0][threadIdx.x];
    for (int i = 1; i < kThreads / 32; ++i) sum += sums[i][threadIdx.x];
    target.partial_sums[blockIdx.y * C + first_column + threadIdx.x] = sum;
  }
  if (target.amax != nullptr) raise_amax<kThreads>(target.amax, largest.bits());
}

template <Kind kKind, __nv_fp8_interpretation_t kFormat>
void launch(cudaStream_t stream, const QuantizeSource& source, const QuantizeTarget& target,
            int64_t N, int64_t C) {
  if (target.transposed == nullptr && target.partial_sums == nullptr) {
    const unsigned blocks = grid_size(ceil_div(N * C, kThreads * kPieces * 8));
    quantize_rows_kernel<kKind, kFormat><<<blocks, kThreads, 0, stream>>>(target, source, N * C);
  } else {
    const dim3 grid(grid_size(ceil_div(C, kTileColumns)),
                    static_cast<unsigned>(ceil_div(N, kTileRows)));
    quantize_tiles_kernel<kKind, kFormat><<<grid, kThreads, 0, stream>>>(target, source, N, C);
  }
  CUDA_CHECK(cudaGetLastError());
}

template <Kind kKind>
void launch_passes(cudaStream_t stream, const QuantizeSource& source, QuantizeTarget target,
                   DType format, int64_t N, int64_t C, unsigned* own_amax) {
  if (own_amax != nullptr) {
    CUDA_CHECK(cudaMemsetAsync(own_amax, 0, sizeof *own_amax, stream));
    const auto blocks = static_cast<unsigned>(
        std::min<int64_t>(ceil_div(N * C, kThreads * 8), 8 * num_multiprocessors()));
    amax_kernel<kKind><<<blocks, kThreads, 0, stream>>>(own_amax, source, N * C);
    target.own_amax = own_amax;
  }
  if (format == DType::kFloat8E4M3) {
    launch<kKind, __NV_E4M3>(stream, source, target, N, C);
  } else {
    launch<kKind, __NV_E5M2>(stream, source, target, N, C);
  }
}

}  // namespace

void run(const Context& context, const Quantize& op) {
  constexpr const char* kName = "quantize";
  const Tensor& like = op.inp ? op.inp : op.pre;
  if (like.dtype() != DType::kBFloat16)
    throw std::invalid_argument("quantize: a GPU takes bfloat16, and the numbers are " +
                                std::string(name_of(like.dtype())));
  const int64_t N = num_rows(like), C = num_columns(like);
  require_multiple(kName, "the number of rows", N, 16);
  require_multiple(kName, "the number of columns", C, 16);
  require_aligned(kName, {op.rows, op.transposed, op.value, op.inp, op.pre});
  void* const scratch = context.scratch(kName, scratch_bytes(op, context.num_multiprocessors));
  const DType format = (op.rows ? op.rows : op.transposed).dtype();
  auto* partial_sums = reinterpret_cast<float*>(static_cast<char*>(scratch) + kQuantizeAmaxBytes);
  const QuantizeSource source{op.inp.as<const bf16>(), op.pre.as<const bf16>(), op.activation};
  const QuantizeTarget target{.rows = op.rows.as<uint8_t>(),
                              .transposed = op.transposed.as<uint8_t>(),
                              .value = op.value.as<bf16>(),
                              .partial_sums = op.column_sums ? partial_sums : nullptr,
                              .scaling = op.scaling.as<float>(),
                              .own_amax = nullptr,
                              .amax = op.amax.as<unsigned>(),
                              .largest = float8_format(format).largest};
  const auto passes = !op.pre   ? launch_passes<Kind::kPlain>
                      : !op.inp ? launch_passes<Kind::kActivation>
                                : launch_passes<Kind::kActivationGradient>;
  passes(context.stream, source, target, format, N, C,
         op.derives_scale ? static_cast<unsigned*>(scratch) : nullptr);
  if (op.column_sums)
    sum_partials(context.stream, {op.column_sums.as<float>()}, partial_sums, ceil_div(N, kTileRows),
                 C, C, op.accumulate);
}

}  // namespace weft::cuda
