// Attention forward on mma.sync: one block per query tile, streaming key tiles with a running
// softmax [Dao 2023, arXiv:2307.08691, algorithm 1].
//
//   S = Q K^T (in registers)   P = exp(scale * S - m)   l += rowsum(P)   O = O * correction + P V
//
// A warp owns 16 * kM rows. With kM = 2 every B fragment that is read from shared memory feeds two
// tensor operations, so that shared memory is not the limit. P goes from accumulator to operand
// registers without leaving the thread.
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"

namespace weft::cuda::attention {

template <typename ElementType, int kHeadSize, int kMTiles, int kNumWarps, int kTileKeys,
          int kMinBlocks>
struct ForwardShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kM = kMTiles;  // 16-row tiles per warp
  static constexpr int kWarpRows = 16 * kM;
  static constexpr int kThreads = 32 * kNumWarps;
  static constexpr int kQueries = kWarpRows * kNumWarps;  // per block
  static constexpr int kKeys = kTileKeys;                 // per step
  static constexpr int kBlocksPerSm = kMinBlocks;
  static constexpr int kSharedBytes = (kQueries + 4 * kKeys) * D * 2;  // Q, two stages of K and V
  // The first step must hold a visible key for every row of a warp.
  static_assert(kKeys % kWarpRows == 0);
};

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerSm)
    attention_forward_kernel(const Params p) {
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kM = Shape::kM, kN = Shape::kKeys / 8;
  extern __shared__ __align__(128) uint8_t shared[];
  const Tile<D> q_tile{shared_address(shared)};
  const uint32_t stages = q_tile.base + Shape::kQueries * Tile<D>::kRowBytes;
  const auto k_tile = [&](int j) {
    return Tile<D>{stages + (j & 1) * 2 * Shape::kKeys * Tile<D>::kRowBytes};
  };
  const auto v_tile = [&](int j) {
    return Tile<D>{k_tile(j).base + Shape::kKeys * Tile<D>::kRowBytes};
  };

  const int num_tiles = (p.T + Shape::kQueries - 1) / Shape::kQueries;
  const BlockPlace place = block_order(p, num_tiles);
  const int b = place.bh / p.H, h = place.bh % p.H;
  const int first_query = (num_tiles - 1 - place.tile) * Shape::kQueries;
  const int head_size = head_size_of<Shape>(p);
  const TokenRows<const Element> q(p.q, b, h), k(p.k, b, h / p.queries_per_key),
      v(p.v, b, h / p.queries_per_key);
  const auto load_keys = [&](int j) {
    const int first_key = j * Shape::kKeys, num_valid = p.num_keys - first_key;
    k_tile(j).template load<Shape::kKeys, Shape::kThreads, Shape::kPadded>(
        k.at(first_key), k.stride, num_valid, head_size);
    v_tile(j).template load<Shape::kKeys, Shape::kThreads, Shape::kPadded>(
        v.at(first_key), v.stride, num_valid, head_size);
  };

  const int last_position = p.first_query + min(first_query + Shape::kQueries, p.T) - 1;
  const int num_steps = last_position / Shape::kKeys + 1;
  const int first_step =
      kDocuments ? first_key_of(p, b, p.first_query + first_query) / Shape::kKeys : 0;
  q_tile.template load<Shape::kQueries, Shape::kThreads, Shape::kPadded>(
      q.at(first_query), q.stride, p.T - first_query, head_size);
  load_keys(first_step);
  commit_copies();

  const int warp_row = (threadIdx.x / 32) * Shape::kWarpRows;
  const int warp_query = first_query + warp_row;
  const int warp_position = p.first_query + warp_query;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, h, p.scale);
  float acc[kM][D / 8][4] = {};
  float row_max[kM][2], row_sum[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    row_max[m][0] = row_max[m][1] = -INFINITY;
    row_sum[m][0] = row_sum[m][1] = 0;
  }
  int first_keys[kM][2];
  [[maybe_unused]] int warp_begin = 0, warp_last_begin = 0;  // begins of its rows' documents
  if constexpr (kDocuments) {
    load_first_keys(first_keys, p, b, warp_position);
    warp_begin = first_key_of(p, b, warp_position);
    warp_last_begin = first_key_of(p, b, warp_position + Shape::kWarpRows - 1);
  }

  for (int j = first_step; j < num_steps; ++j) {
    wait_copies<0>();
    __syncthreads();  // tile j has arrived, and no thread still reads tile j - 1
    if (j + 1 < num_steps) load_keys(j + 1);
    commit_copies();
    const int first_key = j * Shape::kKeys;
    if (first_key >= warp_position + Shape::kWarpRows) continue;  // the causal mask hides all of it
    if (kDocuments && first_key + Shape::kKeys <= warp_begin) continue;  // other documents
    float s[kM][kN][4] = {};
    multiply_rows<Element, D, kM, kN>(s, q_tile, warp_row, k_tile(j));
    float correction[kM][2];
    softmax_step<kDocuments, kAlibi>(s, row_max, row_sum, correction, scale_log2,
                                     first_key + Shape::kKeys > warp_position + 1, warp_position,
                                     first_key, first_keys, first_key < warp_last_begin, slope);
    if constexpr (kDropout) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const int query = warp_position + m * 16;
        const uint32_t kept = mask_word(p, place.bh, query, first_key);
        drop_rows<kN>(s[m], kept >> (first_key % kMaskTile / 4));
      }
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[m][n][i] *= correction[m][i / 2];
      }
    }
    uint32_t probabilities[kM][kN / 2][4];
    round_to_operand<Element, kM, kN>(probabilities, s);
    multiply_columns<Element, D, kM, kN / 2>(acc, probabilities, v_tile(j));
  }

  const int lane = threadIdx.x & 31;
  float inverse[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = row_sum[m][half];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      inverse[m][half] = p.dropout.keep_scale / sum;
      const int query = warp_query + m * 16 + half * 8 + (lane >> 2);
      if ((lane & 3) == 0 && query < p.T) {
        p.lse[static_cast<int64_t>(place.bh) * p.T + query] =
            row_max[m][half] * p.scale + __logf(sum);
      }
    }
  }
  const int64_t out_stride = static_cast<int64_t>(p.H) * head_size;
  Element* out = static_cast<Element*>(p.out) +
                 (static_cast<int64_t>(b) * p.T + first_query) * out_stride +
                 static_cast<int64_t>(h) * head_size;
  store_rows<Shape::kPadded, D, kM>(acc, inverse, q_tile, warp_row, out, out_stride,
                                    p.T - first_query, head_size);
}

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
void launch_forward(cudaStream_t stream, const Params& p) {
  const auto kernel = attention_forward_kernel<Shape, kDropout, kDocuments, kAlibi>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), Shape::kSharedBytes,
                      "attention_forward_kernel");
  const int num_tiles = (p.T + Shape::kQueries - 1) / Shape::kQueries;
  kernel<<<num_tiles * p.B * p.H, Shape::kThreads, Shape::kSharedBytes, stream>>>(p);
  check_launch("attention_forward_kernel");
}

}  // namespace weft::cuda::attention
