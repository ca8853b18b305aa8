// Attention backward in plain fp32, in two kernels as in mma_sync/backward.cuh.
#include "kernels/cuda/attention/fp32/fp32.h"
#include "kernels/cuda/attention/fp32/rows.cuh"

namespace weft::cuda::attention {
namespace fp32 {
namespace {

// Returns exp(score - lse), directly from lse instead of lse2. Padding rows have lse2 = +inf and
// give 0.
__device__ inline float probability(float score, float lse2) {
  return expf(score - lse2 * 0.6931471805599453F);
}

template <int D, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(kThreads) attention_backward_query_fp32_kernel(const Params p) {
  extern __shared__ float dynamic[];
  auto* tiles = reinterpret_cast<Rows<D>*>(dynamic);
  Rows<D>&q_rows = tiles[0], &dout_rows = tiles[1], &k_rows = tiles[2], &v_rows = tiles[3];
  const HeadPlace<D> head(p);
  const float* q = static_cast<const float*>(p.qkv) + head.qkv;
  const int first_query = blockIdx.x * kOwned, lane = threadIdx.x & 31;
  const int row = threadIdx.x / 32 * kRows;
  load_rows<D>(q_rows, q + first_query * head.token_stride, head.token_stride, p.T - first_query,
               head.size);
  load_rows<D>(dout_rows,
               static_cast<const float*>(p.dout) + head.out + first_query * head.out_stride,
               head.out_stride, p.T - first_query, head.size);
  const float* lse2 = p.lse2 + head.bh * padded_length(p.T) + first_query + row;
  const float* delta = p.delta + head.bh * padded_length(p.T) + first_query + row;

  const float slope = head.template slope<kAlibi>(p);
  float dq[kRows][D / 32] = {};
  int first_keys[kRows];
  load_first_keys<kDocuments>(first_keys, p, head.b, first_query + row);
  for (int key0 = first_tile<kDocuments>(p, head.b, first_query);
       key0 < min(first_query + kOwned, p.T); key0 += 32) {
    __syncthreads();
    load_rows<D>(k_rows, q + head.size + key0 * head.token_stride, head.token_stride, p.T - key0,
                 head.size);
    load_rows<D>(v_rows, q + 2 * head.size + key0 * head.token_stride, head.token_stride,
                 p.T - key0, head.size);
    __syncthreads();
    float s[kRows], dp[kRows];
    dot_rows<D>(s, q_rows, row, k_rows);
    dot_rows<D>(dp, dout_rows, row, v_rows);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int query = first_query + row + r;
      if constexpr (kDropout) dp[r] *= keep(p, head, query, key0 + lane);
      const bool visible = key0 + lane <= query && (!kDocuments || key0 + lane >= first_keys[r]);
      const float score = add_distance<kAlibi>(s[r] * p.scale, slope, key0 + lane - query);
      const float weight = visible ? probability(score, lse2[r]) : 0.0F;
      s[r] = weight * (dp[r] - delta[r]);
    }
    add_weighted_rows<D>(dq, s, k_rows);
  }
  float* out = static_cast<float*>(p.dqkv) + head.qkv;
  for (int r = 0; r < kRows; ++r) {
    const int query = first_query + row + r;
    if (query < p.T) store_row<D>(out + query * head.token_stride, dq[r], p.scale, head.size);
  }
}

template <int D, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(kThreads) attention_backward_key_fp32_kernel(const Params p) {
  extern __shared__ float dynamic[];
  auto* tiles = reinterpret_cast<Rows<D>*>(dynamic);
  Rows<D>&k_rows = tiles[0], &v_rows = tiles[1], &q_rows = tiles[2], &dout_rows = tiles[3];
  const HeadPlace<D> head(p);
  const float* q = static_cast<const float*>(p.qkv) + head.qkv;
  const float* dout = static_cast<const float*>(p.dout) + head.out;
  const int first_key = blockIdx.x * kOwned, lane = threadIdx.x & 31;
  const int row = threadIdx.x / 32 * kRows;
  const float* k = q + head.size + first_key * head.token_stride;
  load_rows<D>(k_rows, k, head.token_stride, p.T - first_key, head.size);
  load_rows<D>(v_rows, k + head.size, head.token_stride, p.T - first_key, head.size);

  const float slope = head.template slope<kAlibi>(p);
  float dk[kRows][D / 32] = {}, dv[kRows][D / 32] = {};
  int ends[kRows];  // of the queries that see each key
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    ends[r] = kDocuments ? end_of_queries_of(p, head.b, first_key + row + r) : p.T;
  const int end = kDocuments ? end_of_queries_of(p, head.b, first_key + kOwned - 1) : p.T;
  for (int query0 = first_key; query0 < end; query0 += 32) {
    __syncthreads();
    load_rows<D>(q_rows, q + query0 * head.token_stride, head.token_stride, p.T - query0,
                 head.size);
    load_rows<D>(dout_rows, dout + query0 * head.out_stride, head.out_stride, p.T - query0,
                 head.size);
    __syncthreads();
    const int query = query0 + lane;
    const float lse2 = p.lse2[head.bh * padded_length(p.T) + query];
    const float delta = p.delta[head.bh * padded_length(p.T) + query];
    float s[kRows], dp[kRows];
    dot_rows<D>(s, k_rows, row, q_rows);
    dot_rows<D>(dp, v_rows, row, dout_rows);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int key = first_key + row + r;
      const bool visible = key <= query && (!kDocuments || query < ends[r]);
      const float score = add_distance<kAlibi>(s[r] * p.scale, slope, key - query);
      const float weight = visible ? probability(score, lse2) : 0.0F;
      s[r] = weight;
      if constexpr (kDropout) {
        const float factor = keep(p, head, query, key);
        s[r] *= factor;
        dp[r] *= factor;
      }
      dp[r] = weight * (dp[r] - delta);
    }
    add_weighted_rows<D>(dv, s, dout_rows);
    add_weighted_rows<D>(dk, dp, q_rows);
  }
  float* out = static_cast<float*>(p.dqkv) + head.qkv + head.size;
  for (int r = 0; r < kRows; ++r) {
    const int key = first_key + row + r;
    if (key >= p.T) continue;
    store_row<D>(out + key * head.token_stride, dk[r], p.scale, head.size);
    store_row<D>(out + head.size + key * head.token_stride, dv[r], 1.0F, head.size);
  }
}

template <int D>
void backward(cudaStream_t stream, const Params& p, bool dropout) {
  choose_kernel(p, dropout, [&](auto drops, auto documents, auto alibi) {
    launch<D>(stream, p, attention_backward_query_fp32_kernel<D, drops(), documents(), alibi()>, 4,
              "attention_backward_query_fp32_kernel");
    launch<D>(stream, p, attention_backward_key_fp32_kernel<D, drops(), documents(), alibi()>, 4,
              "attention_backward_key_fp32_kernel");
  });
}

}  // namespace
}  // namespace fp32

void backward_fp32(cudaStream_t stream, const Params& params, bool dropout) {
  choose_tile(params.head_size, [&](auto columns, auto padded) {
    fp32::backward<padded() ? fp32::kPaddedColumns : columns()>(stream, params, dropout);
  });
}

}  // namespace weft::cuda::attention
