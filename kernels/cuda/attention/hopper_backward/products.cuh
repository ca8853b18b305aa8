// The part of backward on Hopper that multiplies: two warpgroups with 64 keys each.
//
// Scores are computed with keys as rows. So P^T and dS^T are the left operands of dV = P^T dO and
// dK = dS^T Q without leaving registers. dQ = dS K needs the gradients of both groups' scores with
// queries as rows: they go through shared memory, and the groups take turns in forming dQ of a
// block of 64 queries.
//
// The score products of a step are queued at its begin; the sums of dV are formed during the
// elementwise work of dS.
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/hopper_backward/dq_products.cuh"
#include "kernels/cuda/attention/hopper_backward/memory.cuh"
#include "kernels/cuda/attention/hopper_backward/scores.cuh"
#include "kernels/cuda/attention/hopper_backward/value_sums.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Returns a left operand of a warpgroup: the tile, or this warp's rows of it in registers.
template <bool kInRegisters, int D>
__device__ inline auto rows_of(PanelTile<D, 64> tile, int warp_row) {
  if constexpr (kInRegisters) {
    return RegisterTile<D>(tile, warp_row);
  } else {
    return tile;
  }
}

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__device__ inline void multiply_tiles(const Params& p,
                                      const BackwardMemory<Shape, kDropout>& memory, int group) {
  // Without dropout the sums of dV are those of dO (bias_sums.h).
  [[maybe_unused]] float(*value_sums)[Shape::D] = nullptr;
  if constexpr (kDropout) {
    __shared__ float of_warps[Shape::kGroups][4][Shape::D];
    value_sums = of_warps[group];
  }
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kN = 8;
  constexpr bool kEarlyDelta = D <= 96;  // sums of dK, dV, scores and dP leave registers for it
  // With few columns the left operands of S^T and dP^T fit in registers, too, so that these
  // products read half as much of shared memory.
  constexpr bool kInRegisters = D <= 64;
  const ScoreExchange<Shape, kDropout> exchange{memory, group};
  const int warp_row = threadIdx.x / 32 % 4 * 16;
  int step = 0;
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const WorkTile read = memory.work_tile(i);
    const WorkTile work = {uniform(read.bh), uniform(read.tile), uniform(read.slot),
                           uniform(read.round)};
    if (!work.exists()) return;
    const int b = work.bh / p.H;
    const Steps<Shape, kDocuments> steps(p, work);
    const int end_of_steps = kDocuments ? uniform(steps.end) : steps.end;
    const PanelTile<D, 64> k_tile = memory.k_tile(i, group), v_tile = memory.v_tile(i, group);
    const auto k_rows = rows_of<kInRegisters>(k_tile, warp_row);
    const auto v_rows = rows_of<kInRegisters>(v_tile, warp_row);
    const int group_key = work.tile * kTileKeys + 64 * group;
    const float slope = slope_of<kAlibi>(p, work.bh % p.H, 1 / kLog2E);
    int ends[1][2] = {};
    [[maybe_unused]] int warp_first_end = 0, group_end = 0;  // ends of documents
    if constexpr (kDocuments) {
      load_ends_of_queries(ends, p, b, group_key + warp_row);
      warp_first_end = uniform(end_of_queries_of(p, b, group_key + warp_row));
      group_end = uniform(end_of_queries_of(p, b, group_key + 63));
    }
    float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
    for (int query = steps.begin * Shape::kStep; query < end_of_steps * Shape::kStep;
         query += Shape::kStep, ++step) {
      memory.stages().wait_full(step);
      // No query of the step sees a key of the group.
      const bool idle = query < group_key || (kDocuments && query >= group_end);
      if (idle) {
        const uint32_t zeros[4][4] = {};
        // In other steps products bring the warps together, which exchange.store needs.
        sync_warpgroup();
        exchange.store(step, warp_row, zeros);
      } else {
        const ScoreTile<Shape, kDropout, kDocuments, kAlibi> tile{
            p,
            group_key + warp_row,
            query,
            kDropout ? memory.mask(step, group) : 0,
            slope,
            ends,
            kDocuments && query + Shape::kStep > warp_first_end};
        const uint32_t rows_of_lse2 = memory.rows(step);
        const uint32_t rows_of_delta = rows_of_lse2 + Shape::kStep * 4;
        float s[1][kN][4], dp[kN][4], lse2[kN][2], delta[kN][2];
        wgmma_fence();
        start_rows_product<Element, D>(s[0], k_rows, memory.q_tile(step));
        start_rows_product<Element, D>(dp, v_rows, memory.dout_tile(step));
        tile.load_rows(lse2, rows_of_lse2);
        wgmma_wait<1>();
        pin(s[0]);
        tile.to_probabilities(s[0], lse2);
        uint32_t probabilities[1][kN / 2][4], ds[1][kN / 2][4];
        tile.round_kept(probabilities, s);
        wgmma_fence();
        start_columns_product<Element, D>(dv[0], probabilities[0], memory.dout_tile(step));
        if constexpr (kEarlyDelta) tile.load_rows(delta, rows_of_delta);
        wgmma_wait<1>();
        pin(dp);
        if constexpr (!kEarlyDelta) tile.load_rows(delta, rows_of_delta);
        tile.to_gradients(s[0], dp, delta);
        round_to_operand<Element, 1, kN>(ds, s);
        wgmma_fence();
        start_columns_product<Element, D>(dk[0], ds[0], memory.q_tile(step));
        exchange.store(step, warp_row, ds[0]);
      }
      if (exchange.forms_dq(step)) {
        const int block = query / kSemaphoreQueries;
        const LastTile<Shape, kDocuments> last(p, work, block);
        const bool is_last = kDocuments ? uniform(last.is_last) != 0 : last.is_last;
        const bool is_only = kDocuments ? uniform(last.is_only) != 0 : last.is_only;
        const float* before = nullptr;
        if (is_last && !is_only) before = wait_for_sums<D>(p, work, block);
        exchange.form_dq(p, i, step, is_last, before);
      }
      wgmma_wait<0>();
      pin(dk[0]);
      pin(dv[0]);
      memory.stages().empty_by_warp(step);
    }
    // After this barrier no thread reads the group's values; the results take their place.
    sync_warpgroup();
    const HeadView<Shape> head(p, work.bh);
    const float row_scale[1][2] = {{p.scale, p.scale}};
    const float keep_scale[1][2] = {{p.dropout.keep_scale, p.dropout.keep_scale}};
    // dv lies as dk does.
    const int64_t first =
        head.b * p.dk.sample_stride + head.h * p.dk_head_stride + group_key * p.dk.token_stride;
    const Tile<D> results{v_tile.base};
    if constexpr (kDropout) {
      if (p.bias.of_values != nullptr) {
        sum_values<Shape>(dv[0], value_sums);
        sync_warpgroup();
        const int column = threadIdx.x % 128;
        if (column < D) {
          float sum = 0;
#pragma unroll
          for (int warp = 0; warp < 4; ++warp) sum += value_sums[warp][column];
          p.bias.values(b, 2 * work.tile + group, p.H, work.bh % p.H)[column] =
              sum * p.dropout.keep_scale;
        }
      }
    }
    store_rows<Shape::kPadded, D, 1>(dv, keep_scale, results, warp_row,
                                     static_cast<Element*>(p.dv.data) + first, p.dk.token_stride,
                                     p.T - group_key, head.size);
    store_rows<Shape::kPadded, D, 1>(dk, row_scale, results, warp_row,
                                     static_cast<Element*>(p.dk.data) + first, p.dk.token_stride,
                                     p.T - group_key, head.size);
    fence_shared_async();
    memory.own().empty_by_warp(i);
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
