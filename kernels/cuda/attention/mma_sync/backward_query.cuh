// The query kernel of backward on mma.sync (backward.cuh): a block owns a tile of queries and sums
// dQ over the keys.
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"

namespace weft::cuda::attention {

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerSm)
    attention_backward_query_kernel(const Params p) {
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kM = Shape::kM, kN = Shape::kStep / 8;
  constexpr int kStepBytes = Shape::kStep * Tile<D>::kRowBytes;
  extern __shared__ __align__(128) uint8_t shared[];
  const Tile<D> q_tile{shared_address(shared)};
  const Tile<D> dout_tile{q_tile.base + Shape::kOwned * Tile<D>::kRowBytes};
  const uint32_t stages = dout_tile.base + Shape::kOwned * Tile<D>::kRowBytes;
  const auto k_tile = [&](int j) { return Tile<D>{stages + (j & 1) * 2 * kStepBytes}; };
  const auto v_tile = [&](int j) { return Tile<D>{k_tile(j).base + kStepBytes}; };

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const HeadView<Shape> head(p, place.bh);
  const TokenRows<Element> q = head.rows(p.q), k = head.key_rows(p, p.k), v = head.key_rows(p, p.v);
  const int first_query = (num_tiles - 1 - place.tile) * Shape::kOwned;
  const auto load_keys = [&](int j) {
    const int first_key = j * Shape::kStep, num_valid = p.T - first_key;
    k_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(
        k.at(first_key), k.stride, num_valid, head.size);
    v_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(
        v.at(first_key), v.stride, num_valid, head.size);
  };
  q_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(
      q.at(first_query), q.stride, p.T - first_query, head.size);
  dout_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(
      head.dout + first_query * head.out_stride, head.out_stride, p.T - first_query, head.size);
  const int b = head.b;
  const int first_step = kDocuments ? first_key_of(p, b, first_query) / Shape::kStep : 0;
  load_keys(first_step);
  commit_copies();

  const int lane = threadIdx.x & 31;
  const int warp_row = (threadIdx.x / 32) * Shape::kWarpRows;
  const int warp_query = first_query + warp_row;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, head.h, 1 / kLog2E);
  float lse2[kM][2], delta[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = warp_query + m * 16 + half * 8 + (lane >> 2);
      lse2[m][half] = head.lse2[query];
      delta[m][half] = head.delta[query];
    }
  }

  int first_keys[kM][2];
  [[maybe_unused]] int warp_begin = 0, warp_last_begin = 0;  // begins of its rows' documents
  if constexpr (kDocuments) {
    load_first_keys(first_keys, p, b, warp_query);
    warp_begin = first_key_of(p, b, warp_query);
    warp_last_begin = first_key_of(p, b, warp_query + Shape::kWarpRows - 1);
  }
  float dq[kM][D / 8][4] = {};
  const int num_steps = (min(first_query + Shape::kOwned, p.T) - 1) / Shape::kStep + 1;
  for (int j = first_step; j < num_steps; ++j) {
    wait_copies<0>();
    __syncthreads();  // tile j has arrived, and no thread still reads tile j - 1
    if (j + 1 < num_steps) load_keys(j + 1);
    commit_copies();
    const int first_key = j * Shape::kStep;
    if (first_key >= warp_query + Shape::kWarpRows) continue;  // the causal mask hides all of it
    if (kDocuments && first_key + Shape::kStep <= warp_begin) continue;  // other documents
    float s[kM][kN][4] = {};
    multiply_rows<Element, D, kM, kN>(s, q_tile, warp_row, k_tile(j));
    float dp[kM][kN][4] = {};
    multiply_rows<Element, D, kM, kN>(dp, dout_tile, warp_row, v_tile(j));
    const bool masked = first_key + Shape::kStep > warp_query + 1;
    [[maybe_unused]] const bool other_documents = first_key < warp_last_begin;
    if constexpr (kDropout) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const int query = warp_query + m * 16;
        const uint32_t kept = mask_word(p, place.bh, query, first_key);
        drop_rows<kN>(dp[m], kept >> (first_key % kMaskTile / 4));
      }
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int query = warp_query + m * 16 + i / 2 * 8 + (lane >> 2);
          const int key = first_key + n * 8 + (lane & 3) * 2 + i % 2;
          const float row_lse2 =
              add_distance<kAlibi>(lse2[m][i / 2], slope, query - first_key - (lane & 3) * 2);
          float probability = fast_exp2(
              add_distance<kAlibi>(s[m][n][i] * scale_log2 - row_lse2, slope, n * 8 + i % 2));
          if (masked && key > query) probability = 0;
          if constexpr (kDocuments) {
            if (other_documents && key < first_keys[m][i / 2]) probability = 0;
          }
          s[m][n][i] =
              probability * score_gradient<kDropout>(dp[m][n][i], p.dropout, delta[m][i / 2]);
        }
      }
    }
    uint32_t ds[kM][kN / 2][4];
    round_to_operand<Element, kM, kN>(ds, s);
    multiply_columns<Element, D, kM, kN / 2>(dq, ds, k_tile(j));
  }

  float row_scale[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) row_scale[m][0] = row_scale[m][1] = p.scale;
  const TokenRows<Element> dq_rows = head.rows(p.dq);
  store_rows<Shape::kPadded, D, kM>(dq, row_scale, q_tile, warp_row, dq_rows.at(first_query),
                                    dq_rows.stride, p.T - first_query, head.size);
}

}  // namespace weft::cuda::attention
