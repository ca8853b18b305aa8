// The word embedding, and the gradient of positions that restart inside a sample.
//
// Backward sums the rows of dout that share a token without atomics. Positions are sorted by token
// (stably, so that positions ascend within a token), the sorted list is cut into pieces of 32
// positions, and a block adds each run of equal tokens within its piece. A run inside one piece
// goes to dword at once; the parts of a run that crosses pieces go to scratch, and one block adds
// them in order. So a token that fills half the batch costs one pass over its partial sums, not a
// chain of thousands of additions.
#include <algorithm>
#include <bit>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda_scratch.h"
#include "kernels/operations/embedding.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void embedding_forward_kernel(T* out, const int32_t* tokens, const T* word,
                                         int64_t num_vecs, int64_t C, int64_t first_word,
                                         int64_t num_words) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= num_vecs) return;
  const int64_t vecs_per_row = C / kSize, n = index / vecs_per_row;
  const int64_t column = (index - n * vecs_per_row) * kSize;
  const int64_t row = tokens[n] - first_word;
  Vec<T> values = {};
  if (row >= 0 && row < num_words) values = load_vec(word + row * C + column);
  store_vec(out + index * kSize, values);
}

// Computes the keys for sorting: the row of dword, or num_words for another rank's tokens, which
// then sort behind all others.
__global__ void make_keys_kernel(uint32_t* keys, uint32_t* positions, const int32_t* tokens,
                                 int64_t n, int64_t first_word, int64_t num_words) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (i >= n) return;
  const int64_t row = tokens[i] - first_word;
  keys[i] = static_cast<uint32_t>(row >= 0 && row < num_words ? row : num_words);
  positions[i] = static_cast<uint32_t>(i);
}

// Computes the sorting keys of positions that count from the beginning of a document. Row i of the
// gradient is row first_row + i of all samples, which have `period` rows each.
__global__ void make_position_keys_kernel(uint32_t* keys, uint32_t* positions,
                                          const int32_t* document_bounds, int64_t n, int64_t period,
                                          int64_t first_row) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (i >= n) return;
  const int64_t row = first_row + i;
  keys[i] = static_cast<uint32_t>(row % period - document_bounds[2 * row]);
  positions[i] = static_cast<uint32_t>(i);
}

// partials (num_pieces, 2, C): slot 0 is for a run that began in an earlier piece, slot 1 for one
// that begins here and goes on in the next.
template <typename T>
__global__ void sum_runs_kernel(float* dword, float* partials, const T* dout, const uint32_t* keys,
                                const uint32_t* positions, int64_t N, int64_t C,
                                uint32_t num_words) {
  constexpr int kSize = Vec<T>::kSize;
  __shared__ uint32_t key[kEmbeddingPiece + 2];  // The two more are neighbours on either side.
  __shared__ uint32_t position[kEmbeddingPiece];
  const int64_t first = blockIdx.x * static_cast<int64_t>(kEmbeddingPiece);
  const int count = static_cast<int>(min(static_cast<int64_t>(kEmbeddingPiece), N - first));
  for (int i = threadIdx.x; i < kEmbeddingPiece + 2; i += blockDim.x) {
    const int64_t n = first + i - 1;
    key[i] = n >= 0 && n < N ? keys[n] : 0xffffffffu;
    if (i < count) position[i] = positions[first + i];
  }
  __syncthreads();
  const int64_t column = (blockIdx.y * static_cast<int64_t>(blockDim.x) + threadIdx.x) * kSize;
  if (column >= C) return;

  float total[kSize] = {};
  bool from_before = key[0] == key[1];
  constexpr int kAhead = 4;  // loads in flight per thread
  for (int base = 0; base < count; base += kAhead) {
    Vec<T> vecs[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (base + k < count && key[base + k + 1] != num_words)
        vecs[k] = load_vec(dout + position[base + k] * C + column);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int i = base + k;
      if (i >= count || key[i + 1] == num_words) return;  // all further tokens are other ranks'
      float values[kSize];
      unpack(vecs[k], values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) total[j] += values[j];
      const bool ends = key[i + 2] != key[i + 1];
      if (!ends && i + 1 < count) continue;
      if (ends && !from_before) {
        float* target = dword + key[i + 1] * C + column;
#pragma unroll
        for (int j = 0; j < kSize; ++j) target[j] += total[j];
      } else {
        float* target = partials + (blockIdx.x * 2 + (from_before ? 0 : 1)) * C + column;
#pragma unroll
        for (int j = 0; j < kSize; ++j) target[j] = total[j];
      }
      from_before = false;
#pragma unroll
      for (int j = 0; j < kSize; ++j) total[j] = 0.0F;
    }
  }
}

// The block of the piece where a crossing run begins adds up all its parts.
__global__ void join_runs_kernel(float* dword, const float* partials, const uint32_t* keys,
                                 int64_t N, int64_t C, uint32_t num_words) {
  const int64_t last = (blockIdx.x + 1) * static_cast<int64_t>(kEmbeddingPiece) - 1;
  if (last + 1 >= N) return;
  const uint32_t key = keys[last];
  if (key == num_words || keys[last + 1] != key) return;
  const int64_t first = last - kEmbeddingPiece + 1;
  if (first > 0 && keys[first - 1] == key) return;  // it began earlier
  // Finds the last piece that starts with this key, by bisection because the keys ascend.
  int64_t low = blockIdx.x + 1, high = (N - 1) / kEmbeddingPiece;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (keys[middle * kEmbeddingPiece] == key) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int64_t column = blockIdx.y * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (column >= C) return;
  float total = partials[(blockIdx.x * 2 + 1) * C + column];
#pragma unroll 8
  for (int64_t piece = blockIdx.x + 1; piece <= low; ++piece)
    total += partials[piece * 2 * C + column];
  dword[key * C + column] += total;
}

int64_t round_up(int64_t n) { return ceil_div(n, 256) * 256; }

// The scratch of a sum of rows by keys.
struct KeyedRows {
  uint32_t *keys, *positions, *sorted_keys, *sorted_positions;
  float* partials;
  void* sort_scratch;
  KeyedRows(void* scratch, int64_t N, int64_t C) {
    auto* bytes = static_cast<char*>(scratch);
    for (uint32_t** list : {&keys, &positions, &sorted_keys, &sorted_positions}) {
      *list = reinterpret_cast<uint32_t*>(bytes);
      bytes += round_up(N * 4);
    }
    partials = reinterpret_cast<float*>(bytes);
    sort_scratch = bytes + round_up(ceil_div(N, kEmbeddingPiece) * 2 * C * 4);
  }
};

// Adds row rows.positions[i] of dout (N,C) to row rows.keys[i] of `sums`, for all i whose key is
// below num_keys.
void add_rows_by_key(cudaStream_t stream, float* sums, const void* dout, DType x, int64_t N,
                     int64_t C, int64_t num_keys, const KeyedRows& rows) {
  sort_pairs(stream, rows.sorted_keys, rows.sorted_positions, rows.keys, rows.positions, N,
             std::bit_width(static_cast<uint64_t>(num_keys)), rows.sort_scratch,
             sort_pairs_scratch_bytes(N));
  const int64_t num_pieces = ceil_div(N, kEmbeddingPiece);
  const auto no_key = static_cast<uint32_t>(num_keys);
  dispatch(x, [&](auto type) {
    using X = decltype(type);
    const int64_t vecs_per_row = C / Vec<X>::kSize;
    const auto threads =
        static_cast<unsigned>(std::min<int64_t>(kThreads, ceil_div(vecs_per_row, 32) * 32));
    const dim3 grid(grid_size(num_pieces), static_cast<unsigned>(ceil_div(vecs_per_row, threads)));
    sum_runs_kernel<<<grid, threads, 0, stream>>>(sums, rows.partials, static_cast<const X*>(dout),
                                                  rows.sorted_keys, rows.sorted_positions, N, C,
                                                  no_key);
  });
  const dim3 grid(grid_size(num_pieces), static_cast<unsigned>(ceil_div(C, kThreads)));
  join_runs_kernel<<<grid, kThreads, 0, stream>>>(sums, rows.partials, rows.sorted_keys, N, C,
                                                  no_key);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void run(const Context& context, const EmbeddingForward& op) {
  constexpr const char* kName = "embedding_forward";
  const int64_t N = num_rows(op.out), C = num_columns(op.out);
  require_multiple(kName, "the hidden size", C, 8);
  require_aligned(kName, {op.out, op.word});
  dispatch(op.out.dtype(), [&](auto type) {
    using X = decltype(type);
    const int64_t num_vecs = N * C / Vec<X>::kSize;
    const unsigned blocks = grid_size(ceil_div(num_vecs, kThreads));
    embedding_forward_kernel<<<blocks, kThreads, 0, context.stream>>>(
        op.out.as<X>(), op.tokens.as<const int32_t>(), op.word.as<const X>(), num_vecs, C,
        op.first_word, num_rows(op.word));
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const EmbeddingBackward& op) {
  constexpr const char* kName = "embedding_backward";
  const int64_t N = num_rows(op.dout), C = num_columns(op.dout), num_words = num_rows(op.dword);
  require_multiple(kName, "the hidden size", C, 8);
  require_aligned(kName, {op.dword, op.dout});
  const KeyedRows rows(context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)), N,
                       C);
  make_keys_kernel<<<grid_size(ceil_div(N, kThreads)), kThreads, 0, context.stream>>>(
      rows.keys, rows.positions, op.tokens.as<const int32_t>(), N, op.first_word, num_words);
  add_rows_by_key(context.stream, op.dword.as<float>(), op.dout.data(), op.dout.dtype(), N, C,
                  num_words, rows);
}

void document_positions_backward(cudaStream_t stream, float* dtable, const void* dout,
                                 const int32_t* document_bounds, DType x, int64_t N, int64_t C,
                                 int64_t period, int64_t first_row, int64_t num_positions,
                                 void* scratch) {
  const KeyedRows rows(scratch, N, C);
  make_position_keys_kernel<<<grid_size(ceil_div(N, kThreads)), kThreads, 0, stream>>>(
      rows.keys, rows.positions, document_bounds, N, period, first_row);
  add_rows_by_key(stream, dtable, dout, x, N, C, num_positions, rows);
}

}  // namespace weft::cuda
