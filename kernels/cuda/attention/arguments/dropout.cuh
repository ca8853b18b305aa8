// Reading dropout's bits where the scores are computed. The mask is laid out for it
// (kernels/numbers/dropout.h): a lane needs one word for 16 queries by 64 keys, and for the
// transposed tile of 16 keys by 64 queries it has one word after a transposition between lanes.
#pragma once

#include "kernels/cuda/attention/arguments/params.h"

namespace weft::cuda::attention {

constexpr int kMaskTileBytes = kMaskTileWords * 4;
constexpr int kMaskRowsWords = kMaskTileWords / 4;  // words of 16 queries by 64 keys

// Draws dropout's bits into `kept`. Forward begins with it.
void draw_kept(cudaStream_t stream, const Params& params);

// Returns the bits of the tile of these queries and keys, by their positions. Where there are no
// such queries, or the causal mask hides the tile, nothing reads the bits, and those of another
// tile are returned.
__device__ inline const uint32_t* mask_tile(const Params& p, int bh, int query_tile, int key_tile) {
  query_tile = min(query_tile, static_cast<int>(attention_mask_tiles(p.num_keys)) - 1);
  key_tile = min(key_tile, query_tile);
  return p.dropout_mask + bh * attention_mask_words(p.num_keys) +
         attention_mask_tile(query_tile, key_tile);
}

// Returns this lane's word of 16 queries and of the 64 keys around `key`.
__device__ inline uint32_t mask_word(const Params& p, int bh, int first_query, int key) {
  const uint32_t* tile = mask_tile(p, bh, first_query / kMaskTile, key / kMaskTile);
  return tile[first_query % kMaskTile / 16 * kMaskRowsWords + (threadIdx.x & 31)];
}

// Drops from a warp's accumulators what `kept` lacks, where bit(n, i) is the bit of accumulator
// [n][i]. The tests are in the order of the bits: the compiler then copies several at once into
// predicates.
template <int kN, typename Bit>
__device__ inline void drop(float (&x)[kN][4], uint32_t kept, Bit bit) {
#pragma unroll
  for (int b = 0; b < 32; ++b) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (bit(n, i) == b) x[n][i] = (kept & 1U << b) != 0 ? x[n][i] : 0.0F;
      }
    }
  }
}

// A tile of 16 queries by 8 * kN keys, with the word of its 64 keys.
template <int kN>
__device__ inline void drop_rows(float (&x)[kN][4], uint32_t kept) {
  drop(x, kept, [](int n, int i) { return 16 * (i % 2) + 2 * n + i / 2; });
}

// A tile of 16 keys by 8 * kN queries, with the result of columns_word.
template <int kN>
__device__ inline void drop_columns(float (&x)[kN][4], uint32_t kept) {
  drop(x, kept, [](int n, int i) { return 16 * (i % 2) + 4 * (n / 2) + 2 * (i / 2) + n % 2; });
}

// Returns this lane's bits of 16 keys from `first_key` on, from its words of 16 * kWords queries.
// The half words hold what belongs to one query and key of an 8 by 8 tile, so that one
// transposition of 16-bit values brings all bits where they belong.
template <int kWords>
__device__ inline uint32_t columns_word(const uint32_t (&rows)[kWords], int first_key) {
  const int shift = first_key % kMaskTile / 16 * 4;
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i) kept |= (rows[i] >> shift & 0x000F000FU) << (4 * i);
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(kept));
  return kept;
}

}  // namespace weft::cuda::attention
