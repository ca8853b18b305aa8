// The scratch of attention on CUDA where there is no flash attention (has_flash_attention).
//
// The scores of a block are in memory: those of some queries and of some heads of one sample, with
// all keys that the queries see. So the memory is bounded whatever the batch is. A block has so
// many heads that all its arrays fit into kUnfusedScratchBytes, and at least one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/operations/attention.h"

namespace weft {

// A block of 512 queries has enough rows for the matrix units, and of 2048 keys in four blocks of
// queries 5/8 are computed, where the causal mask leaves 1/2.
constexpr int64_t kUnfusedQueries = 512;
// Bounds the memory of a block. At 2048 keys a block has enough heads then to fill a GPU; with more
// its scores would no longer stay in the L2 cache (50 MiB on an H100) between the product and the
// softmax.
constexpr int64_t kUnfusedScratchBytes = int64_t{128} << 20;

// Columns and rows of the arrays are padded to this, so that rows are aligned to 16 bytes.
constexpr int64_t kUnfusedMultiple = 8;
constexpr int64_t unfused_columns(int64_t size) {
  return (size + kUnfusedMultiple - 1) / kUnfusedMultiple * kUnfusedMultiple;
}

// Rows of scores have num_keys columns, rows of heads `columns`.
struct UnfusedScratch {
  int64_t num_queries = 0, num_heads = 0;  // the largest block's
  int64_t num_keys = 0, columns = 0;
  bool packs_heads = false;  // products read copies of queries, keys and values with padded rows
                             // and a key for each query
  // Each of these is the memory of one head. Scores have their gradients beside them, in as much
  // again.
  int64_t scores_bytes = 0;
  int64_t sums_bytes = 0;    // (Tq+2*Tk,columns) fp32: gradients, or outputs before rounding
  int64_t packed_bytes = 0;  // (2*Tq+2*Tk,columns) x: query, key, value, gradient of the output
  int64_t num_bytes = 0;     // all together; never less for a larger T or H
};

// Tq queries of H heads see Tk keys. Heads that share keys, or do not lie at equal distances, are
// `scattered`.
inline UnfusedScratch unfused_scratch(int64_t Tq, int64_t Tk, int64_t H, int64_t D, DType x,
                                      bool scattered) {
  UnfusedScratch s;
  s.num_queries = std::min(Tq, kUnfusedQueries);
  s.num_keys = unfused_columns(Tk);
  s.columns = unfused_columns(D);
  s.packs_heads = s.columns != D || scattered;
  s.scores_bytes = s.num_queries * s.num_keys * 4;
  s.sums_bytes = (Tq + 2 * Tk) * s.columns * 4;
  s.packed_bytes = s.packs_heads ? 2 * (Tq + Tk) * s.columns * size_bytes(x) : 0;
  const int64_t of_head = 2 * s.scores_bytes + s.sums_bytes + s.packed_bytes;
  s.num_heads = std::clamp<int64_t>(kUnfusedScratchBytes / of_head, 1, H);
  s.num_bytes = std::max(of_head, std::min(H * of_head, kUnfusedScratchBytes));
  return s;
}
inline UnfusedScratch unfused_scratch(const Qkv& qkv) {
  const HeadVectors& q = qkv.q;
  return unfused_scratch(q.T, qkv.k.T, q.H, q.D, q.dtype, q.group_heads > 1 || qkv.k.H < q.H);
}

}  // namespace weft
