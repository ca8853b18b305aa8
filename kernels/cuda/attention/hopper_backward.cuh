// Attention backward on Hopper: the choice of its kernels. Tiles of up to 128 columns take the kernel of
// fused_backward.cuh with five products.
//
// Tiles of 160 columns take the two kernels of this file, those of backward.cuh with TMA copies and wgmma: their sums
// leave no registers for dQ. The query kernel runs first. It also forms delta and the scaled lse, which the key kernel reads.
// All probabilities and score gradients stay in registers: scores are computed with the owned side
// as rows, which makes them the left operand of the product that sums over the streamed side. A
// warpgroup queues the two score products of a step behind the previous step's sums; its
// elementwise work overlaps with the products of the other warpgroups.
#pragma once

#include "kernels/cuda/attention/backward.cuh"
#include "kernels/cuda/attention/fused_backward.cuh"
#include "kernels/cuda/attention/wgmma.cuh"

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
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerSm)
    attention_backward_query_hopper_kernel(const Params p,
                                           const __grid_constant__ CUtensorMap qkv_map,
                                           const __grid_constant__ CUtensorMap dout_map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kStep = Shape::kStep, kN = kStep / 8;
  using StepTile = PanelTile<D, kStep>;
  using Stages = Ring<Shape::kGroups, Shape::kStages>;
  __shared__ __align__(8) uint64_t barriers[Stages::kNumBarriers];
  extern __shared__ uint8_t shared[];
  const int group = warpgroup_index();
  const uint32_t own_base = aligned_shared(shared);
  const uint32_t stage_base = own_base + 2 * Shape::kGroups * Shape::kOwnBytes;
  const PanelTile<D, 64> q_tile{own_base + 2 * group * Shape::kOwnBytes};
  const PanelTile<D, 64> dout_tile{q_tile.base + Shape::kOwnBytes};
  const auto k_tile = [&](int step) {
    return StepTile{stage_base + Stages::stage(step) * 2 * Shape::kStepBytes};
  };
  const auto v_tile = [&](int step) { return StepTile{k_tile(step).base + Shape::kStepBytes}; };
  const uint32_t mask_base = stage_base + Shape::kStages * 2 * Shape::kStepBytes;
  const auto mask = [&](int step, int of_group) {
    return mask_base + Stages::stage(step) * Shape::kMaskBytes + of_group * kMaskTileBytes;
  };
  const Stages ring{shared_address(barriers)};

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const int b = place.bh / p.H, h = place.bh % p.H;
  const int first_query = (num_tiles - 1 - place.tile) * Shape::kOwned;
  // Steps begin with the first tile of keys that any of the block's queries sees.
  const int skipped = kDocuments ? uniform(first_key_of(p, b, first_query)) / kStep : 0;
  const int num_steps = (min(first_query + Shape::kOwned, p.T) - 1) / kStep + 1 - skipped;
  const auto load_keys = [&](int step) {
    const uint32_t full = ring.full(step);
    expect_bytes(full, 2 * Shape::kStepBytes + (kDropout ? Shape::kMaskBytes : 0));
    k_tile(step).load(qkv_map, 3 * h + 1, (skipped + step) * kStep, b, full);
    v_tile(step).load(qkv_map, 3 * h + 2, (skipped + step) * kStep, b, full);
    for (int g = 0; kDropout && g < Shape::kGroups; ++g)
      load_bytes(mask(step, g), mask_tile(p, place.bh, first_query / kMaskTile + g, skipped + step),
                 kMaskTileBytes, full);
  };
  const auto load_own = [&](uint32_t barrier) {
    expect_bytes(barrier, 2 * Shape::kGroups * Shape::kOwnBytes);
    for (int g = 0; g < Shape::kGroups; ++g) {
      const uint32_t base = own_base + 2 * g * Shape::kOwnBytes;
      PanelTile<D, 64>{base}.load(qkv_map, 3 * h, first_query + 64 * g, b, barrier);
      PanelTile<D, 64>{base + Shape::kOwnBytes}.load(dout_map, h, first_query + 64 * g, b, barrier);
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
  [[maybe_unused]] int warp_last_begin = 0;  // of the document of the warp's last query
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
    start_rows_product<Element, D, kStep>(s[0], q_tile, k_tile(step));
    start_rows_product<Element, D, kStep>(dp[0], dout_tile, v_tile(step));
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
    start_columns_product<Element, D, kStep>(dq[0], ds[0], k_tile(step));
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
  store_rows<Shape::kPadded, D, 1>(dq, row_scale, Tile<D>{q_tile.base}, warp_row,
                                   head.dq + group_query * head.token_stride, head.token_stride,
                                   p.T - group_query, head.size);
#endif
}

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerSm)
    attention_backward_key_hopper_kernel(const Params p,
                                         const __grid_constant__ CUtensorMap qkv_map,
                                         const __grid_constant__ CUtensorMap dout_map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kStep = Shape::kStep, kN = kStep / 8;
  using StepTile = PanelTile<D, kStep>;
  using Stages = Ring<Shape::kGroups, Shape::kStages>;
  __shared__ __align__(8) uint64_t barriers[Stages::kNumBarriers];
  extern __shared__ uint8_t shared[];
  const int group = warpgroup_index();
  const uint32_t own_base = aligned_shared(shared);
  const uint32_t stage_base = own_base + 2 * Shape::kGroups * Shape::kOwnBytes;
  const uint32_t rows_base = stage_base + Shape::kStages * 2 * Shape::kStepBytes;
  const PanelTile<D, 64> k_tile{own_base + 2 * group * Shape::kOwnBytes};
  const PanelTile<D, 64> v_tile{k_tile.base + Shape::kOwnBytes};
  const auto q_tile = [&](int step) {
    return StepTile{stage_base + Stages::stage(step) * 2 * Shape::kStepBytes};
  };
  const auto dout_tile = [&](int step) { return StepTile{q_tile(step).base + Shape::kStepBytes}; };
  const auto rows = [&](int step) {
    return rows_base + Stages::stage(step) * 2 * kStep * 4;
  };  // lse2, delta
  const uint32_t mask_base = rows_base + Shape::kStages * 2 * kStep * 4;
  const auto mask = [&](int step, int of_group) {
    return mask_base + Stages::stage(step) * Shape::kMaskBytes + of_group * kMaskTileBytes;
  };
  const Stages ring{shared_address(barriers)};

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const HeadView<Shape> head(p, place.bh);
  const int b = place.bh / p.H, h = place.bh % p.H;
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
    q_tile(step).load(qkv_map, 3 * h, query, b, full);
    dout_tile(step).load(dout_map, h, query, b, full);
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
      PanelTile<D, 64>{base}.load(qkv_map, 3 * h + 1, first_key + 64 * g, b, barrier);
      PanelTile<D, 64>{base + Shape::kOwnBytes}.load(qkv_map, 3 * h + 2, first_key + 64 * g, b,
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
  [[maybe_unused]] int warp_first_end = 0;  // of the document of the warp's first key
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
    start_rows_product<Element, D, kStep>(s[0], k_tile, q_tile(step));
    start_rows_product<Element, D, kStep>(dp[0], v_tile, dout_tile(step));
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
    start_columns_product<Element, D, kStep>(dv[0], probabilities[0], dout_tile(step));
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
    start_columns_product<Element, D, kStep>(dk[0], ds[0], q_tile(step));
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
  Element* dk_out = head.dq + head.size + group_key * head.token_stride;
  store_rows<Shape::kPadded, D, 1>(dk, row_scale, Tile<D>{k_tile.base}, warp_row, dk_out,
                                   head.token_stride, p.T - group_key, head.size);
  store_rows<Shape::kPadded, D, 1>(dv, keep_scale, Tile<D>{v_tile.base}, warp_row,
                                   dk_out + head.size, head.token_stride, p.T - group_key,
                                   head.size);
#endif
}

template <class Shape, bool kDropout>
void launch_hopper_part(cudaStream_t stream, const Params& p,
                        void (*kernel)(Params, CUtensorMap, CUtensorMap),
                        const CUtensorMap& qkv_map, const CUtensorMap& dout_map, const char* name) {
  constexpr int kSharedBytes = Shape::shared_bytes(2, kDropout);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kSharedBytes, name);
  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  kernel<<<num_tiles * p.B * p.H, Shape::kThreads, kSharedBytes, stream>>>(p, qkv_map, dout_map);
  check_launch(name);
}

// Launches nothing and returns false where the kernels cannot run.
template <class QueryShape, class KeyShape, bool kDropout, bool kDocuments, bool kAlibi>
bool launch_backward_hopper(cudaStream_t stream, const Params& p) {
  const auto query_kernel =
      attention_backward_query_hopper_kernel<QueryShape, kDropout, kDocuments, kAlibi>;
  const auto key_kernel =
      attention_backward_key_hopper_kernel<KeyShape, kDropout, kDocuments, kAlibi>;
  static const bool usable = runs_on_hopper(reinterpret_cast<const void*>(query_kernel));
  if (!usable) return false;
  const int head_size = head_size_of<QueryShape>(p);
  const CUtensorMap qkv_map = tensor_map(p.qkv, QueryShape::D, head_size, 3 * p.H, p.T, p.B);
  const CUtensorMap dout_map = tensor_map(p.dout, QueryShape::D, head_size, p.H, p.T, p.B);
  launch_hopper_part<QueryShape, kDropout>(stream, p, query_kernel, qkv_map, dout_map,
                                           "attention_backward_query_hopper_kernel");
  launch_hopper_part<KeyShape, kDropout>(stream, p, key_kernel, qkv_map, dout_map,
                                         "attention_backward_key_hopper_kernel");
  return true;
}

// The kernels' shapes for each tile. Those of mma.sync that fit in 99 KiB run where a block has no more.
template <typename Element, int D>
struct BackwardShapes;
template <typename Element>
struct BackwardShapes<Element, 64> {
  using Fused = FusedShape<Element, 64, 3, 2, 2, 4>;
  using Query = BackwardShape<Element, 64, 2, 4, 32, 2>;
  using Key = Query;
  using SmallQuery = Query;
  using SmallKey = Key;
};
template <typename Element>
struct BackwardShapes<Element, 96> {
  using Fused = FusedShape<Element, 96, 3, 1, 1, 3>;
  using Query = BackwardShape<Element, 96, 2, 4, 32, 2>;
  using Key = BackwardShape<Element, 96, 1, 8, 64, 1>;
  using SmallQuery = Query;
  using SmallKey = Key;
};
template <typename Element>
struct BackwardShapes<Element, 128> {
  using Fused = FusedShape<Element, 128, 2, 1, 1, 2>;
  using Query = BackwardShape<Element, 128, 1, 8, 64, 1>;
  using Key = Query;
  using SmallQuery = BackwardShape<Element, 128, 1, 8, 32, 1>;
  using SmallKey = SmallQuery;
};
template <typename Element>
struct BackwardShapes<Element, 160> {
  using HopperQuery = HopperShape<Element, 160, 2, 64, 3, 1>;
  using HopperKey = HopperShape<Element, 160, 2, 64, 3, 1>;
  using Query = BackwardShape<Element, 160, 1, 4, 32, 2>;
  using Key = Query;
  using SmallQuery = Query;
  using SmallKey = Query;
};

template <typename Element, int D, bool kPadded>
bool backward_16bit(cudaStream_t stream, const Params& params, bool dropout) {
  using Shapes = BackwardShapes<Element, D>;
  using Query = PaddedIf<typename Shapes::Query, kPadded>;
  using Key = PaddedIf<typename Shapes::Key, kPadded>;
  using SmallQuery = PaddedIf<typename Shapes::SmallQuery, kPadded>;
  using SmallKey = PaddedIf<typename Shapes::SmallKey, kPadded>;
  bool is_fused = false;
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    if constexpr (D <= 128) {
      using Fused = PaddedIf<typename Shapes::Fused, kPadded>;
      is_fused = launch_fused_backward<Fused, drops(), documents(), alibi()>(stream, params);
      if (is_fused) return;
    } else {
      using HopperQuery = PaddedIf<typename Shapes::HopperQuery, kPadded>;
      using HopperKey = PaddedIf<typename Shapes::HopperKey, kPadded>;
      if (launch_backward_hopper<HopperQuery, HopperKey, drops(), documents(), alibi()>(stream,
                                                                                        params)) {
        return;
      }
    }
    const void* kernel = reinterpret_cast<const void*>(
        attention_backward_key_kernel<Key, drops(), documents(), alibi()>);
    Params without_sums = params;
    without_sums.bias = {};
    if (fits_shared_memory(kernel, Key::kSharedBytes)) {
      launch_backward<Query, Key, drops(), documents(), alibi()>(stream, without_sums);
    } else {
      launch_backward<SmallQuery, SmallKey, drops(), documents(), alibi()>(stream, without_sums);
    }
  });
  return is_fused && params.bias.of_queries != nullptr;
}

}  // namespace weft::cuda::attention
