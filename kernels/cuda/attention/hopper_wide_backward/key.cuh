// The key kernel of backward for wide tiles on Hopper (kernels.cuh).
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/hopper_wide_backward/ring.cuh"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace weft::cuda::attention {

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attention_backward_key_hopper_kernel(const Params p, const __grid_constant__ WideMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kStep = Shape::kStep, kN = kStep / 8;
  using StepTile = PanelTile<D, kStep>;
  __shared__ __align__(8) uint64_t barriers[Ring::kNumWords];
  extern __shared__ uint8_t shared[];
  const int group = warpgroup_index();
  const uint32_t own_base = aligned_shared(shared);
  const uint32_t stage_base = own_base + 2 * Shape::kGroups * Shape::kOwnBytes;
  const uint32_t rows_base = stage_base + Shape::kStages * 2 * Shape::kStepBytes;
  const PanelTile<D, 64> k_tile{own_base + 2 * group * Shape::kOwnBytes};
  const PanelTile<D, 64> v_tile{k_tile.base + Shape::kOwnBytes};
  const auto q_tile = [&](int step) {
    return StepTile{stage_base + Ring::stage(step) * 2 * Shape::kStepBytes};
  };
  const auto dout_tile = [&](int step) { return StepTile{q_tile(step).base + Shape::kStepBytes}; };
  const auto rows = [&](int step) {
    return rows_base + Ring::stage(step) * 2 * kStep * 4;
  };  // lse2, delta
  const uint32_t mask_base = rows_base + Shape::kStages * 2 * kStep * 4;
  const auto mask = [&](int step, int of_group) {
    return mask_base + Ring::stage(step) * Shape::kMaskBytes + of_group * kMaskTileBytes;
  };
  const Ring ring{shared_address(barriers)};

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const HeadView<Shape> head(p, place.bh);
  const int b = place.bh / p.H, h = place.bh % p.H;
  const int key_head = key_head_of(p, h), row_of_head = p.q_rows.of(h, key_head),
            row_of_keys = p.k_rows.of(key_head, 0);
  const int first_key = place.tile * Shape::kOwned;
  const int skipped = first_key / kStep;
  // Steps end with the last tile of queries that see any of the block's keys.
  const int end_of_queries =
      kDocuments ? uniform(end_of_queries_of(p, b, first_key + Shape::kOwned - 1)) : p.T;
  const int num_steps = (end_of_queries + kStep - 1) / kStep - skipped;
  const auto load_queries = [&](int step) {
    const int query = (skipped + step) * kStep;
    const uint32_t full = ring.full(step);
    expect_bytes(full, 2 * Shape::kStepBytes + 2 * kStep * 4 + (kDropout ? Shape::kMaskBytes : 0));
    q_tile(step).load(maps.q, row_of_head, query, b, full);
    dout_tile(step).load(maps.dout, h, query, b, full);
    load_bytes(rows(step), head.lse2 + query, kStep * 4, full);
    load_bytes(rows(step) + kStep * 4, head.delta + query, kStep * 4, full);
    for (int g = 0; kDropout && g < Shape::kGroups; ++g)
      load_bytes(mask(step, g), mask_tile(p, place.bh, skipped + step, first_key / kMaskTile + g),
                 kMaskTileBytes, full);
  };
  const auto load_own = [&](uint32_t barrier) {
    expect_bytes(barrier, 2 * Shape::kGroups * Shape::kOwnBytes);
    for (int g = 0; g < Shape::kGroups; ++g) {
      const uint32_t base = own_base + 2 * g * Shape::kOwnBytes;
      PanelTile<D, 64>{base}.load(maps.k, row_of_keys, first_key + 64 * g, b, barrier);
      PanelTile<D, 64>{base + Shape::kOwnBytes}.load(maps.v, row_of_keys, first_key + 64 * g, b,
                                                     barrier);
    }
  };
  ring.start(num_steps, load_own, load_queries);

  const int lane = threadIdx.x & 31;
  const int warp_row = threadIdx.x / 32 % 4 * 16;
  const int group_key = first_key + 64 * group;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, h, 1 / kLog2E);
  int ends[1][2];
  [[maybe_unused]] int warp_first_end = 0;  // end of the first key's document
  if constexpr (kDocuments) {
    load_ends_of_queries(ends, p, b, group_key + warp_row);
    warp_first_end = uniform(end_of_queries_of(p, b, group_key + warp_row));
  }
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
  // All queries of earlier steps are before the group's first key, those of later ones behind the
  // document of its last key.
  const int first_active = min(num_steps, group_key / kStep - skipped);
  const int num_active =
      kDocuments ? (uniform(end_of_queries_of(p, b, group_key + 63)) + kStep - 1) / kStep - skipped
                 : num_steps;
  wait_barrier(ring.own(), 0);
  ring.pass(0, first_active, num_steps, load_queries);
  for (int step = first_active; step < num_active; ++step) {
    const int first_query = (skipped + step) * kStep;
    const bool masked = first_query < group_key + 64;
    [[maybe_unused]] const bool other_documents = first_query + kStep > warp_first_end;
    float s[1][kN][4], dp[1][kN][4];
    ring.wait(step);
    wgmma_fence();
    start_rows_product<Element, D>(s[0], k_tile, q_tile(step));
    start_rows_product<Element, D>(dp[0], v_tile, dout_tile(step));
    // The bits are read twice: registers are scarce in between.
    const auto read_kept = [&] {
      uint32_t words[kStep / 16];
#pragma unroll
      for (int i = 0; i < kStep / 16; ++i)
        words[i] = load_word(mask(step, group) + (i * kMaskRowsWords + lane) * 4);
      return columns_word(words, warp_row);
    };
    [[maybe_unused]] uint32_t kept = 0;
    if constexpr (kDropout) kept = read_kept();
    wgmma_wait<1>();
    pin(s[0]);
    const uint32_t column_rows = rows(step) + (lane & 3) * 8;
    const int lane_distance = group_key + warp_row + (lane >> 2) - first_query - (lane & 3) * 2;
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      float lse2[2];
      load_pair(lse2, column_rows + n * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float column_lse2 = add_distance<kAlibi>(lse2[i % 2], slope, n * 8 + i % 2);
        s[0][n][i] = fast_exp2(add_distance<kAlibi>(s[0][n][i] * scale_log2 - column_lse2, slope,
                                                    lane_distance + i / 2 * 8));
      }
    }
    if (masked) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = group_key + warp_row + i / 2 * 8 + (lane >> 2);
          const int query = first_query + n * 8 + (lane & 3) * 2 + i % 2;
          if (key > query) s[0][n][i] = 0;
        }
      }
    }
    if constexpr (kDocuments) {
      if (other_documents) {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int query = first_query + n * 8 + (lane & 3) * 2 + i % 2;
            if (query >= ends[0][i / 2]) s[0][n][i] = 0;
          }
        }
      }
    }
    uint32_t probabilities[1][kN / 2][4];
    if constexpr (kDropout) {
      float kept_s[1][kN][4];
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) kept_s[0][n][i] = s[0][n][i];
      }
      drop_columns<kN>(kept_s[0], kept);
      round_to_operand<Element, 1, kN>(probabilities, kept_s);
    } else {
      round_to_operand<Element, 1, kN>(probabilities, s);
    }
    wgmma_fence();
    start_columns_product<Element, D>(dv[0], probabilities[0], dout_tile(step));
    wgmma_wait<1>();  // dp is complete, dv is not
    pin(dp[0]);
    if constexpr (kDropout) drop_columns<kN>(dp[0], read_kept());
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      float delta[2];
      load_pair(delta, column_rows + kStep * 4 + n * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[0][n][i] *= score_gradient<kDropout>(dp[0][n][i], p.dropout, delta[i % 2]);
      }
    }
    uint32_t ds[1][kN / 2][4];
    round_to_operand<Element, 1, kN>(ds, s);
    wgmma_fence();
    start_columns_product<Element, D>(dk[0], ds[0], q_tile(step));
    ring.refill(step, num_steps, load_queries);
    wgmma_wait<0>();
    pin(dk[0]);
    pin(dv[0]);
    ring.release(step);
  }
  if constexpr (kDocuments) ring.pass(num_active, num_steps, num_steps, load_queries);
  // After this barrier no thread reads the group's own tiles; the results take their place.
  sync_warpgroup();
  const float row_scale[1][2] = {{p.scale, p.scale}};
  const float keep_scale[1][2] = {{p.dropout.keep_scale, p.dropout.keep_scale}};
  const TokenRows<Element> dk_rows = head.rows(p.dk), dv_rows = head.rows(p.dv);
  store_rows<Shape::kPadded, D, 1>(dk, row_scale, Tile<D>{k_tile.base}, warp_row,
                                   dk_rows.at(group_key), dk_rows.stride, p.T - group_key,
                                   head.size);
  store_rows<Shape::kPadded, D, 1>(dv, keep_scale, Tile<D>{v_tile.base}, warp_row,
                                   dv_rows.at(group_key), dv_rows.stride, p.T - group_key,
                                   head.size);
#endif
}

}  // namespace weft::cuda::attention
