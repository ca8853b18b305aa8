// The query kernel of backward for wide tiles on Hopper (kernels.cuh).
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/hopper_wide_backward/ring.cuh"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace weft::cuda::attention {

// Computes lse2 and delta of one query with the four lanes of its row, and stores them for the key
// kernel, which runs later.
template <class Shape>
__device__ inline void row_values(float& lse2, float& delta, const Params& p, int bh, int query) {
  using Element = typename Shape::Element;
  const int part = threadIdx.x & 3, head_size = head_size_of<Shape>(p);
  const bool valid = query < p.T;
  delta = 0;
  if (valid) {
    const int64_t token = static_cast<int64_t>(bh / p.H) * p.T + query;
    const int64_t offset = (token * p.H + bh % p.H) * head_size;
    const uint4* out =
        reinterpret_cast<const uint4*>(static_cast<const Element*>(p.out_in) + offset);
    const uint4* dout =
        reinterpret_cast<const uint4*>(static_cast<const Element*>(p.dout) + offset);
#pragma unroll
    for (int i = part; i < Shape::D / 8; i += 4) {
      if (!Shape::kPadded || i * 8 < head_size) delta += dot<Element>(out[i], dout[i]);
    }
  }
  delta += __shfl_xor_sync(0xFFFFFFFFu, delta, 1);
  delta += __shfl_xor_sync(0xFFFFFFFFu, delta, 2);
  lse2 = valid ? p.lse[static_cast<int64_t>(bh) * p.T + query] * kLog2E : INFINITY;
  const int64_t padded = padded_length(p.T);
  if (part == 0 && query < padded) {
    p.lse2[bh * padded + query] = lse2;
    p.delta[bh * padded + query] = delta;
  }
}

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attention_backward_query_hopper_kernel(const Params p, const __grid_constant__ WideMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kStep = Shape::kStep, kN = kStep / 8;
  using StepTile = PanelTile<D, kStep>;
  __shared__ __align__(8) uint64_t barriers[Ring::kNumWords];
  extern __shared__ uint8_t shared[];
  const int group = warpgroup_index();
  const uint32_t own_base = aligned_shared(shared);
  const uint32_t stage_base = own_base + 2 * Shape::kGroups * Shape::kOwnBytes;
  const PanelTile<D, 64> q_tile{own_base + 2 * group * Shape::kOwnBytes};
  const PanelTile<D, 64> dout_tile{q_tile.base + Shape::kOwnBytes};
  const auto k_tile = [&](int step) {
    return StepTile{stage_base + Ring::stage(step) * 2 * Shape::kStepBytes};
  };
  const auto v_tile = [&](int step) { return StepTile{k_tile(step).base + Shape::kStepBytes}; };
  const uint32_t mask_base = stage_base + Shape::kStages * 2 * Shape::kStepBytes;
  const auto mask = [&](int step, int of_group) {
    return mask_base + Ring::stage(step) * Shape::kMaskBytes + of_group * kMaskTileBytes;
  };
  const Ring ring{shared_address(barriers)};

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const int b = place.bh / p.H, h = place.bh % p.H;
  const int key_head = key_head_of(p, h), row_of_head = p.q_rows.of(h, key_head),
            row_of_keys = p.k_rows.of(key_head, 0);
  const int first_query = (num_tiles - 1 - place.tile) * Shape::kOwned;
  // Steps begin with the first tile of keys that any of the block's queries sees.
  const int skipped = kDocuments ? uniform(first_key_of(p, b, first_query)) / kStep : 0;
  const int num_steps = (min(first_query + Shape::kOwned, p.T) - 1) / kStep + 1 - skipped;
  const auto load_keys = [&](int step) {
    const uint32_t full = ring.full(step);
    expect_bytes(full, 2 * Shape::kStepBytes + (kDropout ? Shape::kMaskBytes : 0));
    k_tile(step).load(maps.k, row_of_keys, (skipped + step) * kStep, b, full);
    v_tile(step).load(maps.v, row_of_keys, (skipped + step) * kStep, b, full);
    for (int g = 0; kDropout && g < Shape::kGroups; ++g)
      load_bytes(mask(step, g), mask_tile(p, place.bh, first_query / kMaskTile + g, skipped + step),
                 kMaskTileBytes, full);
  };
  const auto load_own = [&](uint32_t barrier) {
    expect_bytes(barrier, 2 * Shape::kGroups * Shape::kOwnBytes);
    for (int g = 0; g < Shape::kGroups; ++g) {
      const uint32_t base = own_base + 2 * g * Shape::kOwnBytes;
      PanelTile<D, 64>{base}.load(maps.q, row_of_head, first_query + 64 * g, b, barrier);
      PanelTile<D, 64>{base + Shape::kOwnBytes}.load(maps.dout, h, first_query + 64 * g, b,
                                                     barrier);
    }
  };
  ring.start(num_steps, load_own, load_keys);

  const int lane = threadIdx.x & 31;
  const int warp_row = threadIdx.x / 32 % 4 * 16;
  const int group_query = first_query + 64 * group;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, h, 1 / kLog2E);
  float lse2[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    row_values<Shape>(lse2[half], delta[half], p, place.bh,
                      group_query + warp_row + half * 8 + (lane >> 2));
  }
  int first_keys[1][2];
  [[maybe_unused]] int warp_last_begin = 0;  // begin of the last query's document
  if constexpr (kDocuments) {
    load_first_keys(first_keys, p, b, group_query + warp_row);
    warp_last_begin = uniform(first_key_of(p, b, group_query + warp_row + 15));
  }
  float dq[1][D / 8][4] = {};
  // The causal mask hides all later steps from the group, and its documents begin behind the
  // earlier ones.
  const int num_active = min(num_steps, (group_query + 63) / kStep + 1 - skipped);
  const int first_active =
      kDocuments ? uniform(first_key_of(p, b, group_query)) / kStep - skipped : 0;
  wait_barrier(ring.own(), 0);
  if constexpr (kDocuments) ring.pass(0, first_active, num_steps, load_keys);
  for (int step = first_active; step < num_active; ++step) {
    const int first_key = (skipped + step) * kStep;
    const bool masked = first_key + kStep > group_query;
    [[maybe_unused]] const bool other_documents = first_key < warp_last_begin;
    float s[1][kN][4], dp[1][kN][4];
    ring.wait(step);
    wgmma_fence();
    start_rows_product<Element, D>(s[0], q_tile, k_tile(step));
    start_rows_product<Element, D>(dp[0], dout_tile, v_tile(step));
    wgmma_wait<1>();
    pin(s[0]);
    const int lane_query = group_query + warp_row + (lane >> 2) - (lane & 3) * 2;
    const float row_lse2[2] = {add_distance<kAlibi>(lse2[0], slope, lane_query - first_key),
                               add_distance<kAlibi>(lse2[1], slope, lane_query + 8 - first_key)};
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[0][n][i] = fast_exp2(
            add_distance<kAlibi>(s[0][n][i] * scale_log2 - row_lse2[i / 2], slope, n * 8 + i % 2));
      }
    }
    if (masked) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = first_key + n * 8 + (lane & 3) * 2 + i % 2;
          const int query = group_query + warp_row + i / 2 * 8 + (lane >> 2);
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
            const int key = first_key + n * 8 + (lane & 3) * 2 + i % 2;
            if (key < first_keys[0][i / 2]) s[0][n][i] = 0;
          }
        }
      }
    }
    wgmma_wait<0>();
    pin(dp[0]);
    if constexpr (kDropout)
      drop_rows<kN>(dp[0], load_word(mask(step, group) + threadIdx.x % 128 * 4));
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[0][n][i] *= score_gradient<kDropout>(dp[0][n][i], p.dropout, delta[i / 2]);
    }
    uint32_t ds[1][kN / 2][4];
    round_to_operand<Element, 1, kN>(ds, s);
    wgmma_fence();
    start_columns_product<Element, D>(dq[0], ds[0], k_tile(step));
    ring.refill(step, num_steps, load_keys);
    wgmma_wait<0>();
    pin(dq[0]);
    ring.release(step);
  }
  ring.pass(num_active, num_steps, num_steps, load_keys);
  // After this barrier no thread reads the group's own tiles; the results take their place.
  sync_warpgroup();
  const HeadView<Shape> head(p, place.bh);
  const float row_scale[1][2] = {{p.scale, p.scale}};
  const TokenRows<Element> dq_rows = head.rows(p.dq);
  store_rows<Shape::kPadded, D, 1>(dq, row_scale, Tile<D>{q_tile.base}, warp_row,
                                   dq_rows.at(group_query), dq_rows.stride, p.T - group_query,
                                   head.size);
#endif
}

}  // namespace weft::cuda::attention
