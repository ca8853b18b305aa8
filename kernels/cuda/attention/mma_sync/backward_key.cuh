// The key kernel of backward on mma.sync (backward.cuh): a block owns a tile of keys and sums dK
// and dV over the queries.
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"

namespace weft::cuda::attention {

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerSm)
    attention_backward_key_kernel(const Params p) {
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kM = Shape::kM, kN = Shape::kStep / 8;
  constexpr int kStepBytes = Shape::kStep * Tile<D>::kRowBytes;
  extern __shared__ __align__(128) uint8_t shared[];
  const Tile<D> k_tile{shared_address(shared)};
  const Tile<D> v_tile{k_tile.base + Shape::kOwned * Tile<D>::kRowBytes};
  const uint32_t stages = v_tile.base + Shape::kOwned * Tile<D>::kRowBytes;
  const auto q_tile = [&](int j) { return Tile<D>{stages + (j & 1) * 2 * kStepBytes}; };
  const auto dout_tile = [&](int j) { return Tile<D>{q_tile(j).base + kStepBytes}; };
  float* rows = reinterpret_cast<float*>(shared + Shape::kTileBytes);  // [2 stages][lse2, delta]

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const HeadView<Shape> head(p, place.bh);
  const TokenRows<Element> q = head.rows(p.q), k = head.key_rows(p, p.k), v = head.key_rows(p, p.v);
  const int first_key = place.tile * Shape::kOwned;
  const auto load_queries = [&](int j) {
    const int query = j * Shape::kStep, num_valid = p.T - query;
    q_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(q.at(query), q.stride,
                                                                           num_valid, head.size);
    dout_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(
        head.dout + query * head.out_stride, head.out_stride, num_valid, head.size);
    const int i = static_cast<int>(threadIdx.x) * 4;
    if (i < 2 * Shape::kStep) {
      const float* src = i < Shape::kStep ? head.lse2 + i : head.delta + (i - Shape::kStep);
      copy_async(shared_address(rows + (j & 1) * 2 * Shape::kStep + i), src + query, true);
    }
  };
  const int first_step = first_key / Shape::kStep;
  const int b = head.b;
  const int end_of_queries =
      kDocuments ? end_of_queries_of(p, b, first_key + Shape::kOwned - 1) : p.T;
  const int num_steps = (end_of_queries + Shape::kStep - 1) / Shape::kStep;
  k_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(k.at(first_key), k.stride,
                                                                       p.T - first_key, head.size);
  v_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(v.at(first_key), v.stride,
                                                                       p.T - first_key, head.size);
  load_queries(first_step);
  commit_copies();

  const int lane = threadIdx.x & 31;
  const int warp_row = (threadIdx.x / 32) * Shape::kWarpRows;
  const int warp_key = first_key + warp_row;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, head.h, 1 / kLog2E);
  int ends[kM][2];
  [[maybe_unused]] int warp_end = 0, warp_first_end = 0;  // ends of its rows' documents
  if constexpr (kDocuments) {
    load_ends_of_queries(ends, p, b, warp_key);
    warp_end = end_of_queries_of(p, b, warp_key + Shape::kWarpRows - 1);
    warp_first_end = end_of_queries_of(p, b, warp_key);
  }
  float dk[kM][D / 8][4] = {}, dv[kM][D / 8][4] = {};
  for (int j = first_step; j < num_steps; ++j) {
    wait_copies<0>();
    __syncthreads();  // tile j has arrived, and no thread still reads tile j - 1
    if (j + 1 < num_steps) load_queries(j + 1);
    commit_copies();
    const int first_query = j * Shape::kStep;
    if (first_query + Shape::kStep <= warp_key) continue;  // all queries are before the warp's keys
    if (kDocuments && first_query >= warp_end) continue;   // all queries are of other documents
    const bool masked = first_query < warp_key + Shape::kWarpRows - 1;
    [[maybe_unused]] const bool other_documents = first_query + Shape::kStep > warp_first_end;
    const float* lse2 = rows + (j & 1) * 2 * Shape::kStep;
    const float* delta = lse2 + Shape::kStep;

    float s[kM][kN][4] = {};
    multiply_rows<Element, D, kM, kN>(s, k_tile, warp_row, q_tile(j));
    float dp[kM][kN][4] = {};
    multiply_rows<Element, D, kM, kN>(dp, v_tile, warp_row, dout_tile(j));
    [[maybe_unused]] uint32_t kept_rows[kN / 2];
    if constexpr (kDropout) {
#pragma unroll
      for (int i = 0; i < kN / 2; ++i)
        kept_rows[i] = mask_word(p, place.bh, first_query + 16 * i, warp_key);
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      [[maybe_unused]] uint32_t kept = 0;
      if constexpr (kDropout) {
        kept = columns_word(kept_rows, warp_key + m * 16);
        drop_columns<kN>(dp[m], kept);
      }
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const int column = n * 8 + (lane & 3) * 2;
        const float2 row_lse2 = *reinterpret_cast<const float2*>(lse2 + column);
        const float2 row_delta = *reinterpret_cast<const float2*>(delta + column);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = warp_key + m * 16 + i / 2 * 8 + (lane >> 2);
          const int query = first_query + column + i % 2;
          const float column_lse2 =
              add_distance<kAlibi>(i % 2 == 0 ? row_lse2.x : row_lse2.y, slope, n * 8 + i % 2);
          float probability = fast_exp2(add_distance<kAlibi>(
              s[m][n][i] * scale_log2 - column_lse2, slope, key - first_query - (lane & 3) * 2));
          if (masked && key > query) probability = 0;
          if constexpr (kDocuments) {
            if (other_documents && query >= ends[m][i / 2]) probability = 0;
          }
          s[m][n][i] = probability;
          const float delta_i = i % 2 == 0 ? row_delta.x : row_delta.y;
          dp[m][n][i] = probability * score_gradient<kDropout>(dp[m][n][i], p.dropout, delta_i);
        }
      }
      if constexpr (kDropout) drop_columns<kN>(s[m], kept);
    }
    uint32_t operand[kM][kN / 2][4];
    round_to_operand<Element, kM, kN>(operand, s);
    multiply_columns<Element, D, kM, kN / 2>(dv, operand, dout_tile(j));
    round_to_operand<Element, kM, kN>(operand, dp);
    multiply_columns<Element, D, kM, kN / 2>(dk, operand, q_tile(j));
  }

  float row_scale[kM][2], keep_scale[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    row_scale[m][0] = row_scale[m][1] = p.scale;
    keep_scale[m][0] = keep_scale[m][1] = p.dropout.keep_scale;
  }
  const TokenRows<Element> dk_rows = head.rows(p.dk), dv_rows = head.rows(p.dv);
  store_rows<Shape::kPadded, D, kM>(dk, row_scale, k_tile, warp_row, dk_rows.at(first_key),
                                    dk_rows.stride, p.T - first_key, head.size);
  store_rows<Shape::kPadded, D, kM>(dv, keep_scale, v_tile, warp_row, dv_rows.at(first_key),
                                    dv_rows.stride, p.T - first_key, head.size);
}

}  // namespace weft::cuda::attention
