// Backward on Hopper turns a tile of scores into probabilities, and those into gradients, between
// its products.
#pragma once

#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/mma_sync/scores.cuh"
#include "kernels/cuda/device/fragments.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A group's view of one tile of scores: 64 keys by 64 queries.
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
struct ScoreTile {
  using Element = typename Shape::Element;
  static constexpr int kN = 8;
  const Params& p;
  int warp_key, first_query;
  uint32_t mask;  // dropout's bits
  float slope;
  const int (&ends)[1][2];  // ends of the documents of this lane's keys
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

#endif  // sm_90a

}  // namespace weft::cuda::attention
