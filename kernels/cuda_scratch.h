// The scratch of operations on CUDA, in plain C++: a dry run plans it for a GPU that is not there
// with the functions of the CUDA backend. Sizes do not shrink where shapes grow.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/operations/any_operation.h"

namespace weft::cuda {

// cuBLASLt's part of the workspace. In 64 MiB split-K can keep the parts of the largest weight
// gradients; forward GEMMs need at most half of that.
constexpr int64_t kGemmWorkspaceBytes = int64_t{64} << 20;

// Returns the bytes of scratch that an operation takes on a GPU of so many multiprocessors, which
// its grids follow.
template <typename Op>
int64_t scratch_bytes(const Op&, int /*num_multiprocessors*/) {
  return 0;
}
int64_t scratch_bytes(const EmbeddingBackward& op, int num_multiprocessors);
int64_t scratch_bytes(const ResidualNormBackward& op, int num_multiprocessors);
int64_t scratch_bytes(const LinearBackwardWeight& op, int num_multiprocessors);
int64_t scratch_bytes(const LinearActivationBackwardInput& op, int num_multiprocessors);
int64_t scratch_bytes(const Quantize& op, int num_multiprocessors);
int64_t scratch_bytes(const QkNormBackward& op, int num_multiprocessors);
int64_t scratch_bytes(const AttentionForward& op, int num_multiprocessors);
int64_t scratch_bytes(const AttentionBackward& op, int num_multiprocessors);
int64_t scratch_bytes(const NormalizeMatrix& op, int num_multiprocessors);
int64_t scratch_bytes(const Sum& op, int num_multiprocessors);
int64_t scratch_bytes(const SumOfSquares& op, int num_multiprocessors);
int64_t scratch_bytes(const SquaredError& op, int num_multiprocessors);

// Attention of one query takes so many keys in a block; the keys of a head are so many chunks.
constexpr int kSingleQueryKeys = 256;
int64_t num_key_chunks(const AttentionForward& op);

// Returns the workspace that serves all of `operations`, one after the other.
int64_t workspace_bytes(std::span<const AnyOperation> operations, int num_multiprocessors);

// --- parts of it ---
// Sums of the columns of (N,O) are made in chunks of rows, which give every multiprocessor 8
// blocks; a chunk has at least 64 rows.
int64_t num_column_chunks(int64_t N, int64_t O, int num_multiprocessors);
int64_t column_sums_scratch_bytes(int64_t N, int64_t O, int num_multiprocessors);
// Sums, sums of squares, also of a matrix, and squared errors.
constexpr int64_t kSumScratchBytes = 1024 * sizeof(float);
// A bound of what CUB's radix sort of n pairs of 32-bit numbers takes: copies of them, and counters
// of tiles.
constexpr int64_t sort_pairs_scratch_bytes(int64_t n) { return 16 * n + (int64_t{256} << 10); }
// Rows of an embedding's gradient are added in pieces of so many tokens.
constexpr int kEmbeddingPiece = 32;
int64_t embedding_backward_scratch_bytes(int64_t N, int64_t C);
// Quantizing keeps its largest number first, then the sums of columns over tiles of rows.
constexpr int64_t kQuantizeAmaxBytes = 256;
constexpr int kQuantizeTileRows = 64;
// Own products with GELU sum the columns of 128 rows at a time.
constexpr int64_t num_sum_rows(int64_t M) { return (M + 127) / 128; }
// The norm of queries and keys leaves the sums of so many blocks.
constexpr int qk_norm_blocks(int num_multiprocessors) { return 4 * num_multiprocessors; }
// Where queries share keys, attention's backward keeps the gradients of keys and values of each
// head first, (2,B,T,H,D) x; else this is 0.
int64_t head_gradients_bytes(const Qkv& qkv);
// A row of sums (H,3,D), then the sums of columns that it comes from.
constexpr int64_t dqkv_row_bytes(int64_t H, int64_t D) {
  return (H * 3 * D * static_cast<int64_t>(sizeof(float)) + 255) / 256 * 256;
}

}  // namespace weft::cuda
