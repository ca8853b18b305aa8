// The parameters of the attention kernels, and what all of them do with them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/flash_attention.h"
#include "kernels/numbers/dropout.h"
#include "kernels/numbers/head_vectors.h"
#include "kernels/numbers/philox.h"

namespace weft::cuda::attention {

constexpr float kLog2E = 1.4426950408889634F;

// Dropout as the device uses it. Kept probabilities are multiplied by keep_scale, which is 1
// without dropout; the kernels apply it to sums of probabilities, where it costs nothing.
struct DropoutArgs {
  uint64_t seed = 0, stream = 0, first_draw = 0;  // a draw has kMaskBitsPerDraw elements
  uint32_t threshold = 0;
  float keep_scale = 1;
};

inline DropoutArgs dropout_args(const Dropout& dropout) {
  return {dropout.seed, dropout.stream, dropout.first_element / kMaskBitsPerDraw,
          dropout_threshold(dropout.p), dropout_scale(dropout.p)};
}

// Where partial sums of the gradient of a bias lie (backward_workspace/bias_sums.h): rows of H
// heads of as many columns as a tile has. They are null where nobody wants them.
struct BiasSums {
  float* of_queries = nullptr;  // (B, query_rows, H, columns)
  float* of_values = nullptr;   // (B, value_rows, H, columns)
  int query_rows = 0, value_rows = 0;
  int columns = 0;
  bool values_from_dout = false;  // else the fused kernel adds up dV

  WEFT_HOST_DEVICE float* queries(int b, int row, int H, int h) const {
    return of_queries + ((static_cast<int64_t>(b) * query_rows + row) * H + h) * columns;
  }
  WEFT_HOST_DEVICE float* values(int b, int row, int H, int h) const {
    return of_values + ((static_cast<int64_t>(b) * value_rows + row) * H + h) * columns;
  }
};

// Tells the rows of heads in a tensor map by sums alone: what a division prepares would stay in
// registers of the loops of Hopper's kernels, which have none to spare.
struct HeadRows {
  int per_head = 1, per_key = 0;

  WEFT_HOST_DEVICE int of(int head, int key_head) const {
    return head * per_head + key_head * per_key;
  }
};
// Heads lie at equal distances, or in the groups of queries_per_key that share a key.
inline HeadRows head_rows(const HeadVectors& vectors, int queries_per_key) {
  if (vectors.group_heads == 1) return {vectors.group_rows, 0};
  return {1, vectors.group_rows - queries_per_key};
}

// The kernels number queries by what there are of them, and keys by their positions. Query i stands
// at position first_query + i; backward's kernels take first_query = 0 and num_keys = T alone.
struct Params {
  HeadVectors q, k, v;         // queries (B,T,H,D); keys and values (B,num_keys,H/R,D)
  HeadVectors dq, dk, dv;      // backward only; dk and dv have H heads, one for each of q
  const void* dout = nullptr;  // (B,T,H,D), backward only
  const void* out_in = nullptr;
  void* out = nullptr;               // (B,T,H,D), forward only
  float* lse = nullptr;              // (B,H,T)
  float* lse2 = nullptr;             // (B,H,padded T): lse * log2(e), backward only
  float* delta = nullptr;            // (B,H,padded T): sum over D of dout * out, backward only
  uint32_t* dropout_mask = nullptr;  // (B,H,words): 1 bits keep
  int B = 0, T = 0, H = 0;
  int num_keys = 0, first_query = 0;
  int end_of_queries = 0;               // first_query + T
  int queries_per_key = 1;              // R
  uint32_t per_query = 1U << 31;        // 2^31 / R, rounded up
  HeadRows q_rows, k_rows, dq_rows;     // v has the rows of k
  int64_t dk_head_stride = 0;           // dv has the same
  int first_head = 0, total_heads = 0;  // this rank's among those of the whole model
  float scale = 1;
  DropoutArgs dropout;
  int heads_per_group = 1;                // see block_order
  uint32_t* tile_counter = nullptr;       // forward on Hopper only: 0 before and after the kernel
  const int2* document_bounds = nullptr;  // (B,num_keys): begin and end of each token's document
  const float* slopes = nullptr;          // (H) of ALiBi, or null
  int head_size = 0;                      // D of the tensors
  // Sums of dQ and who may add to them (backward_workspace/semaphores.cuh), backward on Hopper
  // only.
  float* dq_sums = nullptr;   // (num_slots, blocks, 64 * D)
  int* semaphores = nullptr;  // the scheduler's counter and (num_slots, blocks)
  int num_slots = 0, num_semaphores = 0;
  int heads_together = 1;  // whose work tiles alternate
  BiasSums bias;           // backward on Hopper only
};

// Returns the vectors of a tensor (B,T,H,D) such as out.
inline HeadVectors vectors_of(const Params& p, const void* tensor) {
  return head_vectors(const_cast<void*>(tensor), p.q.dtype, p.B, p.T, p.H, p.head_size);
}

// Returns h / queries_per_key, for heads below 2^15, without a division (HeadRows).
__device__ inline int key_head_of(const Params& p, int h) {
  return static_cast<int>(__umulhi(2 * static_cast<uint32_t>(h), p.per_query));
}

// Calls function(std::true_type{}) or function(std::false_type{}).
template <typename Function>
void choose(bool value, Function function) {
  if (value) {
    function(std::true_type{});
  } else {
    function(std::false_type{});
  }
}

// Calls function(kDropout, kDocuments, kAlibi) with the std::bool_constants of the kernels to run.
// Kernels without one of them have no instruction for it.
template <typename Function>
void choose_kernel(const Params& p, bool dropout, Function function) {
  choose(dropout, [&](auto drops) {
    choose(p.document_bounds != nullptr, [&](auto documents) {
      choose(p.slopes != nullptr, [&](auto alibi) { function(drops, documents, alibi); });
    });
  });
}

// Returns the number of heads whose keys and values (or queries and gradients) fit in L2 together
// while their blocks run.
inline int heads_per_group(int64_t T, int64_t D, int64_t B, int64_t H) {
  constexpr int64_t kL2ShareBytes = 16 << 20;
  const int64_t fit = kL2ShareBytes / (4 * T * D);
  return static_cast<int>(std::max<int64_t>(1, std::min(fit, B * H)));
}

struct BlockPlace {
  int bh;    // batch * H + head
  int tile;  // 0 .. num_tiles - 1
};

// Returns the head and tile of a block, or of a work tile that a block draws. They run in order of
// their index, one group of heads after the other, so that a group's tensors are read from memory
// once. Inside a group all heads' tile 0 comes first: launchers number tiles by falling work, so
// that the short ones fill the gaps at the end.
__device__ inline BlockPlace block_order(const Params& p, int num_tiles, int idx = blockIdx.x) {
  const int num_heads = p.B * p.H;
  const int group = idx / (p.heads_per_group * num_tiles);
  const int first = group * p.heads_per_group;
  const int size = min(p.heads_per_group, num_heads - first);
  const int rest = idx - first * num_tiles;
  return {first + rest % size, rest / size};
}

// --- documents ---
//
// A query sees no key before the begin of its document, and a key is seen by no query from the end
// of its document on. Both ascend along T, so the first row of a tile tells where its tiles of keys
// begin, and the last row where its tiles of queries end.

// Both take positions. Those behind the last key have the bounds of that one.
__device__ inline int first_key_of(const Params& p, int b, int query) {
  return p.document_bounds[static_cast<int64_t>(b) * p.num_keys + min(query, p.num_keys - 1)].x;
}
__device__ inline int end_of_queries_of(const Params& p, int b, int key) {
  return p.document_bounds[static_cast<int64_t>(b) * p.num_keys + min(key, p.num_keys - 1)].y;
}

// --- ALiBi ---
//
// The kernels add slope * (key - query) in two terms: that of a row and its first column in a tile,
// once a tile, and that of a column inside the tile, one instruction for a score. Distances are
// exact integers. Sums round to 24 bits; terms so large that this matters belong to keys whose
// probability is 0.

// Returns the head's slope, of scores in multiples of `unit`; 0 without ALiBi.
template <bool kAlibi>
__device__ inline float slope_of(const Params& p, int h, float unit) {
  return kAlibi ? p.slopes[h] / unit : 0.0F;
}
// Returns score + slope * distance; without ALiBi the score.
template <bool kAlibi>
__device__ inline float add_distance(float score, float slope, int distance) {
  return kAlibi ? fmaf(slope, static_cast<float>(distance), score) : score;
}

// --- head sizes ---
//
// Kernels are compiled for tiles of Shape::D columns. A padded tile has more columns than the head:
// copies fill the rest with zeros, which add nothing to any product, and stores leave it out.

template <class Shape>
struct Padded : Shape {
  static constexpr bool kPadded = true;
};
template <class Shape, bool kPadded>
using PaddedIf = std::conditional_t<kPadded, Padded<Shape>, Shape>;

// Returns the number of values of a head. Where they fill the tile, it is a constant.
template <class Shape>
WEFT_HOST_DEVICE int head_size_of(const Params& p) {
  return Shape::kPadded ? p.head_size : Shape::D;
}

// Calls function(std::integral_constant<int, D>{}, kPadded) with the tile of a head size.
template <typename Function>
void choose_tile(int64_t head_size, Function function) {
  constexpr std::integral_constant<int, 96> k96;
  constexpr std::integral_constant<int, 160> k160;
  const int64_t columns = flash_columns(head_size);
  if (columns == 64) return function(std::integral_constant<int, 64>{}, std::false_type{});
  if (columns == 128) return function(std::integral_constant<int, 128>{}, std::false_type{});
  if (columns == 160) return function(k160, std::true_type{});
  if (head_size == 96) return function(k96, std::false_type{});
  function(k96, std::true_type{});
}

}  // namespace weft::cuda::attention
