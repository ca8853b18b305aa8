// The part of forward on Hopper that multiplies: warpgroups with 64 queries each.
//
// A warpgroup queues the scores of a step behind the previous step's P V and then waits for both;
// its softmax overlaps with the products of the multiprocessor's other warpgroups. Warpgroups go
// from work tile to work tile without waiting for each other.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/hopper_forward/copies.cuh"
#include "kernels/cuda/attention/hopper_forward/memory.cuh"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Turns the sums of a warp's rows into 1 / sum for its results, and stores lse.
template <bool kDropout>
__device__ inline void finish_rows(float (&inverse)[2], const Params& p, int bh, int first_query,
                                   const float (&row_max)[2], const float (&row_sum)[2]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = row_sum[half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    inverse[half] = p.dropout.keep_scale / sum;
    const int query = first_query + half * 8 + (lane >> 2);
    if ((lane & 3) == 0 && query < p.end_of_queries)
      p.lse[static_cast<int64_t>(bh) * p.T + query - p.first_query] =
          row_max[half] * p.scale + __logf(sum);
  }
}

// Multiplies results by the corrections of their rows. Most steps leave all maxima as they are. Few
// results are multiplied by 1 as fast as they are skipped.
template <int D>
__device__ inline void correct(float (&results)[D / 8][4], const float (&correction)[2]) {
  const bool keeps_maxima =
      D > 64 && __all_sync(0xFFFFFFFFu, correction[0] == 1.0F && correction[1] == 1.0F);
  if (!keeps_maxima) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) results[n][j] *= correction[j / 2];
    }
  }
}

// Puts a warp's results where its queries were.
template <int D>
__device__ inline void put_results(PanelTile<D, 64> tile, int warp_row,
                                   const uint32_t (&results)[D / 16][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
    store_matrices(tile.at(warp_row + (lane & 15), 2 * k + (lane >> 4)), results[k]);
  fence_shared_async();
}

// Releases a step's stage, which this warp has read. Only dropout's bits are read by its lanes, the
// rest by products.
template <class Shape, bool kDropout>
__device__ inline void release(const ForwardMemory<Shape, kDropout>& memory, int step) {
  if constexpr (kDropout) {
    memory.stages().empty_by_warp(step);
  } else if ((threadIdx.x & 31) == 0) {
    memory.stages().empty_by_thread(step);  // Its products are those of all lanes.
  }
}

// Tiles of keys. The step of a tile is its number plus `to_step`.
struct KeyTiles {
  int begin, end, to_step;
};

// Releases tiles of keys unread.
template <class Shape, bool kDropout>
__device__ inline void pass(const ForwardMemory<Shape, kDropout>& memory, KeyTiles tiles) {
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    memory.stages().wait_full(tile + tiles.to_step);
    __syncwarp();
    release(memory, tile + tiles.to_step);
  }
}

// Lets a warpgroup's 64 queries, which lie in a tile of shared memory and stand from the position
// group_query on, attend to tiles of keys.
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__device__ inline void attend_to(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                                 const ForwardTile& work, PanelTile<Shape::D, 64> q_tile, int row,
                                 int group_query, KeyTiles tiles, float scale_log2) {
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kStep = Shape::kStep, kN = kStep / 8;
  const int warp_row = threadIdx.x / 32 % 4 * 16;
  const float slope = slope_of<kAlibi>(p, work.bh - work.b * p.H, p.scale);
  int first_keys[1][2];
  [[maybe_unused]] int warp_last_begin = 0;  // begin of the last query's document
  if constexpr (kDocuments) {
    load_first_keys(first_keys, p, work.b, group_query + warp_row);
    warp_last_begin = uniform(first_key_of(p, work.b, group_query + warp_row + 15));
  }
  float acc[1][D / 8][4] = {};
  float row_max[1][2] = {{-INFINITY, -INFINITY}}, row_sum[1][2] = {};
  uint32_t probabilities[1][kN / 2][4];
  // No product may run from one iteration into the next: ptxas would serialise them all.
  const auto iterate = [&](auto is_first, int tile) {
    constexpr bool kFirst = decltype(is_first)::value;
    const int step = tile + tiles.to_step, first_key = tile * kStep;
    float s[1][kN][4];
    memory.stages().wait_full(step);
    wgmma_fence();
    start_rows_product<Element, D>(s[0], q_tile, memory.k_tile(step));
    if constexpr (!kFirst)
      start_columns_product<Element, D>(acc[0], probabilities[0], memory.v_tile(step - 1));
    wgmma_wait<kFirst ? 0 : 1>();
    pin(s[0]);
    float correction[1][2];
    softmax_step<kDocuments, kAlibi>(s, row_max, row_sum, correction, scale_log2,
                                     first_key + kStep > group_query, group_query + warp_row,
                                     first_key, first_keys, first_key < warp_last_begin, slope);
    if constexpr (kDropout)
      drop_rows<kN>(s[0], load_word(memory.mask(step, row) + threadIdx.x % 128 * 4));
    if constexpr (!kFirst) {
      wgmma_wait<0>();
      pin(acc[0]);
      release(memory, step - 1);
      correct<D>(acc[0], correction[0]);
    }
    round_to_operand<Element, 1, kN>(probabilities, s);
  };
  iterate(std::true_type{}, tiles.begin);
  for (int tile = tiles.begin + 1; tile < tiles.end; ++tile) iterate(std::false_type{}, tile);
  wgmma_fence();
  start_columns_product<Element, D>(acc[0], probabilities[0],
                                    memory.v_tile(tiles.end - 1 + tiles.to_step));
  float inverse[2];
  finish_rows<kDropout>(inverse, p, work.bh, group_query + warp_row, row_max[0], row_sum[0]);
  wgmma_wait<0>();
  pin(acc[0]);
  release(memory, tiles.end - 1 + tiles.to_step);
  // After this barrier no thread reads the group's queries; the results take their place.
  sync_warpgroup();
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) acc[0][n][j] *= inverse[j / 2];
  }
  uint32_t results[1][D / 16][4];
  round_to_operand<Element, 1, D / 8>(results, acc);
  put_results<D>(q_tile, warp_row, results[0]);
}

// Takes work tile after work tile, for one of the warpgroups that multiply.
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__device__ inline void attend(const Params& p, const ForwardMemory<Shape, kDropout>& memory,
                              int group) {
  constexpr int kStep = Shape::kStep;
  const int lane = threadIdx.x & 31;
  const float scale_log2 = p.scale * kLog2E;
  int first_use = 0;  // number of the work tile's first stage
  for (int i = 0;; ++i) {
    memory.work_tiles().wait_full(i);
    const ForwardTile read = memory.work_tile(i);
    const ForwardTile work{uniform(read.bh), uniform(read.b), uniform(read.first_query),
                           uniform(read.first_step)};
    memory.work_tiles().empty_by_warp(i);
    if (work.bh < 0) return;
    const int row = row_of_group<Shape>(i, group), query_tile = query_use<Shape>(i, group);
    const int group_query = work.first_query + 64 * row;
    const int end = end_of_steps<Shape>(p, work);
    // The causal mask hides all later tiles of keys from the group, and its documents begin behind
    // the earlier ones.
    const bool is_active = group_query < p.end_of_queries;
    const int active_begin =
        !is_active ? end : (kDocuments ? uniform(first_key_of(p, work.b, group_query)) / kStep : 0);
    const int active_end = is_active ? min((group_query + 63) / kStep + 1, end) : end;
    const int to_step = first_use - work.first_step;
    first_use += end - work.first_step;
    if (kDocuments || !is_active) pass(memory, KeyTiles{work.first_step, active_begin, to_step});
    memory.queries().wait_full(query_tile);
    const PanelTile<Shape::D, 64> q_tile = memory.q_tile(query_tile);
    if (is_active) {
      attend_to<Shape, kDropout, kDocuments, kAlibi>(p, memory, work, q_tile, row, group_query,
                                                     {active_begin, active_end, to_step},
                                                     scale_log2);
    }
    __syncwarp();
    if (lane == 0) arrive(memory.results_full(query_tile));
    pass(memory, KeyTiles{active_end, end, to_step});
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
