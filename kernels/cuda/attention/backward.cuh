// Attention backward on mma.sync, in two kernels: in the query kernel a block owns a tile of
// queries and sums dQ over the keys, in the key kernel it owns a tile of keys and sums dK and dV
// over the queries. With P = exp(scale * Q K^T - lse) and delta = rowsum(dO * O) [Dao 2023,
// arXiv:2307.08691, algorithm 2]:
//
//   dP = dO V^T   dS = P * (dP - delta)   dQ = scale * dS K   dK = scale * dS^T Q   dV = P^T dO
//
// These are seven products where one kernel needs five. In return no sum crosses blocks: there are
// no atomics and no fp32 accumulators in memory, and the order is fixed. The key kernel computes
// S^T and dP^T, so that P^T and dS^T become operands without leaving registers. With dropout's
// factor F, dV = (P F)^T dO and dP = (dO V^T) F.
#pragma once

#include "kernels/cuda/attention/mma.cuh"

namespace weft::cuda::attention {

// A block keeps kOwned rows; the rows of the other side stream through it, kStep at a time.
template <typename ElementType, int kHeadSize, int kMTiles, int kNumWarps, int kStepRows,
          int kMinBlocks>
struct BackwardShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kM = kMTiles;
  static constexpr int kWarpRows = 16 * kM;
  static constexpr int kThreads = 32 * kNumWarps;
  static constexpr int kOwned = kWarpRows * kNumWarps;
  static constexpr int kStep = kStepRows;
  static constexpr int kBlocksPerSm = kMinBlocks;
  // Two own tiles, and two stages of two streamed ones.
  static constexpr int kTileBytes = (2 * kOwned + 4 * kStep) * D * 2;
  static constexpr int kSharedBytes = kTileBytes + 4 * kStep * 4;  // with two stages of lse2, delta
  static_assert(kRowPadding % kStep == 0 && kRowPadding % kOwned == 0);
};

// Returns dP - delta, where `dp` lacks only dropout's scale.
template <bool kDropout>
__device__ inline float score_gradient(float dp, const DropoutArgs& dropout, float delta) {
  return kDropout ? fmaf(dp, dropout.keep_scale, -delta) : dp - delta;
}

// The place of a (batch, head) in the tensors.
template <class Shape>
struct HeadView {
  using Element = typename Shape::Element;
  int size;  // of the head
  int64_t token_stride, out_stride;
  const Element *q, *dout;
  Element* dq;
  const float *lse2, *delta;

  __device__ HeadView(const Params& p, int bh) {
    size = head_size_of<Shape>(p);
    const int64_t b = bh / p.H, h = bh % p.H;
    token_stride = static_cast<int64_t>(3) * p.H * size;
    out_stride = static_cast<int64_t>(p.H) * size;
    const int64_t offset = b * p.T * token_stride + h * 3 * size;
    q = static_cast<const Element*>(p.qkv) + offset;
    dq = static_cast<Element*>(p.dqkv) + offset;
    dout = static_cast<const Element*>(p.dout) + b * p.T * out_stride + h * size;
    lse2 = p.lse2 + bh * padded_length(p.T);
    delta = p.delta + bh * padded_length(p.T);
  }
};

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
  const int first_query = (num_tiles - 1 - place.tile) * Shape::kOwned;
  const auto load_keys = [&](int j) {
    const Element* k =
        head.q + head.size + static_cast<int64_t>(j) * Shape::kStep * head.token_stride;
    const int num_valid = p.T - j * Shape::kStep;
    k_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(k, head.token_stride,
                                                                           num_valid, head.size);
    v_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(
        k + head.size, head.token_stride, num_valid, head.size);
  };
  q_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(
      head.q + first_query * head.token_stride, head.token_stride, p.T - first_query, head.size);
  dout_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(
      head.dout + first_query * head.out_stride, head.out_stride, p.T - first_query, head.size);
  const int b = place.bh / p.H;
  const int first_step = kDocuments ? first_key_of(p, b, first_query) / Shape::kStep : 0;
  load_keys(first_step);
  commit_copies();

  const int lane = threadIdx.x & 31;
  const int warp_row = (threadIdx.x / 32) * Shape::kWarpRows;
  const int warp_query = first_query + warp_row;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, place.bh % p.H, 1 / kLog2E);
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
  [[maybe_unused]] int warp_begin = 0, warp_last_begin = 0;  // of the documents of the warp's rows
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
  store_rows<Shape::kPadded, D, kM>(dq, row_scale, q_tile, warp_row,
                                    head.dq + first_query * head.token_stride, head.token_stride,
                                    p.T - first_query, head.size);
}

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
  const int first_key = place.tile * Shape::kOwned;
  const auto load_queries = [&](int j) {
    const int query = j * Shape::kStep, num_valid = p.T - query;
    q_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(
        head.q + query * head.token_stride, head.token_stride, num_valid, head.size);
    dout_tile(j).template load<Shape::kStep, Shape::kThreads, Shape::kPadded>(
        head.dout + query * head.out_stride, head.out_stride, num_valid, head.size);
    const int i = static_cast<int>(threadIdx.x) * 4;
    if (i < 2 * Shape::kStep) {
      const float* src = i < Shape::kStep ? head.lse2 + i : head.delta + (i - Shape::kStep);
      copy_async(shared_address(rows + (j & 1) * 2 * Shape::kStep + i), src + query, true);
    }
  };
  const int first_step = first_key / Shape::kStep;
  const int b = place.bh / p.H;
  const int end_of_queries =
      kDocuments ? end_of_queries_of(p, b, first_key + Shape::kOwned - 1) : p.T;
  const int num_steps = (end_of_queries + Shape::kStep - 1) / Shape::kStep;
  const Element* k = head.q + head.size + first_key * head.token_stride;
  k_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(k, head.token_stride,
                                                                       p.T - first_key, head.size);
  v_tile.template load<Shape::kOwned, Shape::kThreads, Shape::kPadded>(
      k + head.size, head.token_stride, p.T - first_key, head.size);
  load_queries(first_step);
  commit_copies();

  const int lane = threadIdx.x & 31;
  const int warp_row = (threadIdx.x / 32) * Shape::kWarpRows;
  const int warp_key = first_key + warp_row;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, place.bh % p.H, 1 / kLog2E);
  int ends[kM][2];
  [[maybe_unused]] int warp_end = 0, warp_first_end = 0;  // of the documents of the warp's rows
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
  Element* dk_out = head.dq + head.size + first_key * head.token_stride;
  store_rows<Shape::kPadded, D, kM>(dk, row_scale, k_tile, warp_row, dk_out, head.token_stride,
                                    p.T - first_key, head.size);
  store_rows<Shape::kPadded, D, kM>(dv, keep_scale, v_tile, warp_row, dk_out + head.size,
                                    head.token_stride, p.T - first_key, head.size);
}

template <class Shape>
void launch_backward_part(cudaStream_t stream, const Params& p, void (*kernel)(Params),
                          const char* name) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), Shape::kSharedBytes, name);
  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  kernel<<<num_tiles * p.B * p.H, Shape::kThreads, Shape::kSharedBytes, stream>>>(p);
  check_launch(name);
}

template <class QueryShape, class KeyShape, bool kDropout, bool kDocuments, bool kAlibi>
void launch_backward(cudaStream_t stream, const Params& p) {
  constexpr bool kFp16 = kIsFp16<typename QueryShape::Element>;
  backward_rows(stream, p, kFp16 ? DType::kFloat16 : DType::kBFloat16);
  launch_backward_part<KeyShape>(
      stream, p, attention_backward_key_kernel<KeyShape, kDropout, kDocuments, kAlibi>,
      "attention_backward_key_kernel");
  launch_backward_part<QueryShape>(
      stream, p, attention_backward_query_kernel<QueryShape, kDropout, kDocuments, kAlibi>,
      "attention_backward_query_kernel");
}

}  // namespace weft::cuda::attention
