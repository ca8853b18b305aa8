// Between its products attention masks and exponentiates scores, and computes their gradients. A
// warp holds them as accumulators: 16 * kM rows by 8 * kN columns.
#pragma once

#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/cuda/device/numbers.cuh"

namespace weft::cuda::attention {

// Loads the first key that each of this lane's rows sees, of a warp's rows from `first_query` on.
template <int kM>
__device__ inline void load_first_keys(int (&first_keys)[kM][2], const Params& p, int b,
                                       int first_query) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + static_cast<int>(threadIdx.x & 31) / 4;
      first_keys[m][half] = first_key_of(p, b, first_query + row);
    }
  }
}
// Loads for each row of keys of this lane the end of its document: no query from there on sees the
// key.
template <int kM>
__device__ inline void load_ends_of_queries(int (&ends)[kM][2], const Params& p, int b,
                                            int first_key) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + static_cast<int>(threadIdx.x & 31) / 4;
      ends[m][half] = end_of_queries_of(p, b, first_key + row);
    }
  }
}

// Masks and exponentiates one tile of scores. The older sums must be multiplied by `correction`.
// With documents rows see no key before first_keys, where `other_documents` says that there are any
// in this tile. `slope` is ALiBi's in units of the scores.
template <bool kDocuments, bool kAlibi, int kM, int kN>
__device__ inline void softmax_step(float (&s)[kM][kN][4], float (&row_max)[kM][2],
                                    float (&row_sum)[kM][2], float (&correction)[kM][2],
                                    float scale_log2, bool masked, int first_query, int first_key,
                                    [[maybe_unused]] const int (&first_keys)[kM][2],
                                    [[maybe_unused]] bool other_documents,
                                    [[maybe_unused]] float slope) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Scores lack ALiBi's term of this lane's first column; the row's maximum has it.
      [[maybe_unused]] float first_term = 0;
      if constexpr (kAlibi) {
        const int query = first_query + m * 16 + half * 8 + (lane >> 2);
        first_term = add_distance<kAlibi>(0.0F, slope, first_key + (lane & 3) * 2 - query);
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          s[m][n][2 * half] = add_distance<kAlibi>(s[m][n][2 * half], slope, n * 8);
          s[m][n][2 * half + 1] = add_distance<kAlibi>(s[m][n][2 * half + 1], slope, n * 8 + 1);
        }
      }
      if (masked) {
        const int last_key = first_query + m * 16 + half * 8 + (lane >> 2) - first_key;
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          const int key = n * 8 + (lane & 3) * 2;
          if (key > last_key) s[m][n][2 * half] = -INFINITY;
          if (key + 1 > last_key) s[m][n][2 * half + 1] = -INFINITY;
        }
      }
      if constexpr (kDocuments) {
        if (other_documents) {
          const int begin = first_keys[m][half] - first_key;
#pragma unroll
          for (int n = 0; n < kN; ++n) {
            const int key = n * 8 + (lane & 3) * 2;
            if (key < begin) s[m][n][2 * half] = -INFINITY;
            if (key + 1 < begin) s[m][n][2 * half + 1] = -INFINITY;
          }
        }
      }
      float max = kAlibi ? -INFINITY : row_max[m][half];
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        max = fmaxf(max, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      }
      if constexpr (kAlibi) max = fmaxf(row_max[m][half], max + first_term);
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
      // A row whose document begins in a later tile has no maximum yet. Any finite number keeps its
      // sums at 0.
      const float shift = kDocuments && max == -INFINITY ? 0.0F : max;
      correction[m][half] = fast_exp2((row_max[m][half] - shift) * scale_log2);
      row_max[m][half] = max;
      const float offset = (kAlibi ? shift - first_term : shift) * scale_log2;
      float sum = row_sum[m][half] * correction[m][half];
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        s[m][n][2 * half] = fast_exp2(s[m][n][2 * half] * scale_log2 - offset);
        s[m][n][2 * half + 1] = fast_exp2(s[m][n][2 * half + 1] * scale_log2 - offset);
        sum += s[m][n][2 * half] + s[m][n][2 * half + 1];
      }
      // This is the sum of this thread's columns; the four threads of a row add up at the end.
      row_sum[m][half] = sum;
    }
  }
}

// Returns dP - delta, where `dp` lacks only dropout's scale.
template <bool kDropout>
__device__ inline float score_gradient(float dp, const DropoutArgs& dropout, float delta) {
  return kDropout ? fmaf(dp, dropout.keep_scale, -delta) : dp - delta;
}

}  // namespace weft::cuda::attention
