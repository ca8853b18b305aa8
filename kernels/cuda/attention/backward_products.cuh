// The part of backward on Hopper that multiplies: two warpgroups with 64 keys each.
//
// Scores are computed with keys as rows. So P^T and dS^T are the left operands of dV = P^T dO and
// dK = dS^T Q without leaving registers. dQ = dS K needs the gradients of both groups' scores with queries as rows:
// they go through shared memory, and the groups take turns in forming dQ of a block of 64 queries.
//
// The score products of a step are queued at its begin; the sums of dV are formed during the elementwise work of dS.
#pragma once

#include "kernels/cuda/attention/backward.cuh"
#include "kernels/cuda/attention/backward_memory.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The numbers of the barriers between the groups, by the group that forms dQ of the step. (0 is that of
// __syncthreads, 1 and 2 are those of sync_warpgroup.)
constexpr int kScoresFull = 3, kScoresEmpty = 5;

// Writes a warp's 16 rows of a left operand with 64 columns.
__device__ inline void store_operand(Tile<64> tile, int row, const uint32_t (&a)[4][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    store_matrices(tile.at(row + (lane & 15), 2 * k + (lane >> 4)), a[k]);
  }
}

// A group's view of one tile of scores: 64 keys by 64 queries.
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
struct ScoreTile {
  using Element = typename Shape::Element;
  static constexpr int kN = 8;
  const Params& p;
  int warp_key, first_query;
  uint32_t mask;  // dropout's bits
  float slope;
  const int (&ends)[1][2];  // of the documents of this lane's keys
  bool other_documents;

  // Loads lse2 or delta of this lane's queries, which is best done before a wait.
  __device__ static void load_rows(float (&values)[kN][2], uint32_t rows) {
#pragma unroll
    for (int n = 0; n < kN; ++n) load_pair(values[n], rows + (threadIdx.x & 3) * 8 + n * 32);
  }

  // Replaces scores with probabilities.
  __device__ void to_probabilities(float (&s)[kN][4], const float (&lse2)[kN][2]) const {
    const int lane = threadIdx.x & 31;
    const float scale_log2 = p.scale * kLog2E;
    const int lane_distance = warp_key + (lane >> 2) - first_query - (lane & 3) * 2;
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float column_lse2 = add_distance<kAlibi>(lse2[n][i % 2], slope, n * 8 + i % 2);
        s[n][i] = fast_exp2(add_distance<kAlibi>(s[n][i] * scale_log2 - column_lse2, slope,
                                                 lane_distance + i / 2 * 8));
      }
    }
    if (first_query < warp_key + 15) {  // the causal mask hides some
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (lane_distance + i / 2 * 8 > n * 8 + i % 2) s[n][i] = 0;
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
            if (query >= ends[0][i / 2]) s[n][i] = 0;
          }
        }
      }
    }
  }

  __device__ uint32_t read_kept() const {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = load_word(mask + (i * kMaskRowsWords + (threadIdx.x & 31)) * 4);
    return columns_word(words, warp_key % 64);
  }
  // Rounds the probabilities that dropout keeps; `s` keeps all.
  __device__ void round_kept(uint32_t (&to)[1][kN / 2][4], const float (&s)[1][kN][4]) const {
    float kept[1][kN][4];
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) kept[0][n][i] = s[0][n][i];
    }
    if constexpr (kDropout) drop_columns<kN>(kept[0], read_kept());
    round_to_operand<Element, 1, kN>(to, kept);
  }

  // Replaces probabilities with the gradients of the scores.
  __device__ void to_gradients(float (&s)[kN][4], float (&dp)[kN][4],
                               const float (&delta)[kN][2]) const {
    if constexpr (kDropout) drop_columns<kN>(dp, read_kept());
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[n][i] *= score_gradient<kDropout>(dp[n][i], p.dropout, delta[n][i % 2]);
    }
  }
};

// Adds dV over a warp's 16 keys.
template <class Shape>
__device__ inline void sum_values(const float (&dv)[Shape::D / 8][4],
                                  float (*value_sums)[Shape::D]) {
  constexpr int kN = Shape::D / 8;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4;
  // Lanes of equal (lane & 3) hold the same columns. They exchange halves of what they hold.
  float half[kN][1], quarter[kN / 2][2];
  const bool upper_half = lane & 16, upper_quarter = lane & 8;
#pragma unroll
  for (int n = 0; n < kN; ++n) {
    const float even = dv[n][0] + dv[n][2], odd = dv[n][1] + dv[n][3];
    half[n][0] =
        (upper_half ? odd : even) + __shfl_xor_sync(0xFFFFFFFFu, upper_half ? even : odd, 16);
  }
#pragma unroll
  for (int n = 0; n < kN / 2; ++n) {
    const float low = half[2 * n][0], high = half[2 * n + 1][0];
    quarter[n][0] =
        (upper_quarter ? high : low) + __shfl_xor_sync(0xFFFFFFFFu, upper_quarter ? low : high, 8);
    quarter[n][0] += __shfl_xor_sync(0xFFFFFFFFu, quarter[n][0], 4);
    const int column = (2 * n + upper_quarter) * 8 + (lane & 3) * 2 + upper_half;
    if ((lane & 4) == 0) value_sums[warp][column] = quarter[n][0];
  }
}

// The two groups hand the gradients of a step's scores to each other, and one of them reads both to form dQ.
template <class Shape, bool kDropout>
struct ScoreExchange {
  const BackwardMemory<Shape, kDropout>& memory;
  int group;

  __device__ bool forms_dq(int step) const { return step % 2 == group; }
  // Writes this warp's 16 keys, when the other group no longer reads what lies there. (This group itself does not: each warp
  // has waited for its products, and all have met since.) The group that forms dQ waits for them later.
  __device__ void store(int step, int warp_row, const uint32_t (&gradients)[4][4]) const {
    const int reader = (step + Shape::kScores) % 2;  // of what lies there
    if (step >= Shape::kScores && reader != group) sync_at(kScoresEmpty + reader);
    store_operand(Tile<64>{memory.score_tile(step, group).base}, warp_row, gradients);
    fence_shared_async();
    if (!forms_dq(step)) arrive_at(kScoresFull + step % 2);
  }
  // Forms dQ of the step's queries, of both groups' keys, and hands it to the warp that adds it to memory. Returns when all
  // products of this thread are complete. `i` is the number of the item.
  __device__ void form_dq(int i, int step) const {
    using Element = typename Shape::Element;
    constexpr int D = Shape::D;
    constexpr int kColumns = D > 96 ? 64 : D;  // Registers hold the sums of so many.
    sync_at(kScoresFull + group);
#pragma unroll
    for (int part = 0; part < D / kColumns; ++part) {
      float dq[kColumns / 8][4];
      wgmma_fence();
#pragma unroll
      for (int of_group = 0; of_group < Shape::kGroups; ++of_group) {
        const PanelTile<kColumns, 64> keys{memory.k_tile(i, of_group).base +
                                           part * PanelTile<kColumns, 64>::kBytes};
        start_transposed_product<Element, kColumns>(dq, memory.score_tile(step, of_group), keys,
                                                    of_group > 0);
      }
      wgmma_wait<0>();
      pin(dq);
      if (part == D / kColumns - 1) arrive_at(kScoresEmpty + group);
      if (part == 0) memory.sums_barriers().wait_empty(step);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        const int place = memory.sums_place(part * kColumns / 8 + n, threadIdx.x % 128);
        asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(memory.sums(step) + place * 16),
                     "f"(dq[n][0]), "f"(dq[n][1]), "f"(dq[n][2]), "f"(dq[n][3])
                     : "memory");
      }
    }
    fence_shared_async();
    __syncwarp();
    if ((threadIdx.x & 31) == 0) arrive(memory.sums_barriers().full(step));
  }
};

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
  const ScoreExchange<Shape, kDropout> exchange{memory, group};
  const int lane = threadIdx.x & 31, warp_row = threadIdx.x / 32 % 4 * 16;
  int step = 0;
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const int ticket = uniform(memory.item(i));
    if (ticket < 0) return;
    const Item item = item_of(p, ticket);
    const int b = item.bh / p.H;
    const Steps<Shape, kDocuments> steps(p, item);
    const PanelTile<D, 64> k_tile = memory.k_tile(i, group), v_tile = memory.v_tile(i, group);
    const int group_key = item.tile * kTurnKeys + 64 * group;
    const float slope = slope_of<kAlibi>(p, item.bh % p.H, 1 / kLog2E);
    int ends[1][2] = {};
    [[maybe_unused]] int warp_first_end = 0, group_end = 0;  // of documents
    if constexpr (kDocuments) {
      load_ends_of_queries(ends, p, b, group_key + warp_row);
      warp_first_end = uniform(end_of_queries_of(p, b, group_key + warp_row));
      group_end = uniform(end_of_queries_of(p, b, group_key + 63));
    }
    float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
    for (int query = steps.begin * Shape::kStep; query < steps.end * Shape::kStep;
         query += Shape::kStep, ++step) {
      memory.stages().wait_full(step);
      // No query of the step sees a key of the group.
      const bool idle = query < group_key || (kDocuments && query >= group_end);
      if (idle) {
        const uint32_t zeros[4][4] = {};
        sync_warpgroup();  // as the products of other steps do, for what exchange.store replaces
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
        start_rows_product<Element, D, 64>(s[0], k_tile, memory.q_tile(step));
        start_rows_product<Element, D, 64>(dp, v_tile, memory.dout_tile(step));
        tile.load_rows(lse2, rows_of_lse2);
        wgmma_wait<1>();
        pin(s[0]);
        tile.to_probabilities(s[0], lse2);
        uint32_t probabilities[1][kN / 2][4], ds[1][kN / 2][4];
        tile.round_kept(probabilities, s);
        wgmma_fence();
        start_columns_product<Element, D, 64>(dv[0], probabilities[0], memory.dout_tile(step));
        if constexpr (kEarlyDelta) tile.load_rows(delta, rows_of_delta);
        wgmma_wait<1>();
        pin(dp);
        if constexpr (!kEarlyDelta) tile.load_rows(delta, rows_of_delta);
        tile.to_gradients(s[0], dp, delta);
        round_to_operand<Element, 1, kN>(ds, s);
        wgmma_fence();
        start_columns_product<Element, D, 64>(dk[0], ds[0], memory.q_tile(step));
        exchange.store(step, warp_row, ds[0]);
      }
      if (exchange.forms_dq(step)) exchange.form_dq(i, step);
      wgmma_wait<0>();
      pin(dk[0]);
      pin(dv[0]);
      if (lane == 0) arrive(memory.stages().empty(step));
    }
    // After this barrier no thread reads the group's values; the results take their place.
    sync_warpgroup();
    const HeadView<Shape> head(p, item.bh);
    const float row_scale[1][2] = {{p.scale, p.scale}};
    const float keep_scale[1][2] = {{p.dropout.keep_scale, p.dropout.keep_scale}};
    Element* dk_out = head.dq + head.size + group_key * head.token_stride;
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
          p.bias.values(b, 2 * item.tile + group, p.H, item.bh % p.H)[column] =
              sum * p.dropout.keep_scale;
        }
      }
    }
    store_rows<Shape::kPadded, D, 1>(dv, keep_scale, results, warp_row, dk_out + head.size,
                                     head.token_stride, p.T - group_key, head.size);
    store_rows<Shape::kPadded, D, 1>(dk, row_scale, results, warp_row, dk_out, head.token_stride,
                                     p.T - group_key, head.size);
    fence_shared_async();
    __syncwarp();
    if (lane == 0) arrive(memory.own().empty(i));
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
