// Attention forward in plain fp32.
#include "kernels/cuda/attention/fp32/fp32.h"
#include "kernels/cuda/attention/fp32/rows.cuh"

namespace weft::cuda::attention {
namespace fp32 {
namespace {

template <int D, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(kThreads) attention_forward_fp32_kernel(const Params p) {
  __shared__ Rows<D> q_rows;
  extern __shared__ float dynamic[];
  auto& k_rows = *reinterpret_cast<Rows<D>*>(dynamic);
  auto& v_rows = *reinterpret_cast<Rows<D>*>(dynamic + sizeof(Rows<D>) / 4);
  const HeadPlace<D> head(p);
  const float* q = static_cast<const float*>(p.qkv) + head.qkv;
  const int first_query = blockIdx.x * kOwned, lane = threadIdx.x & 31;
  const int row = threadIdx.x / 32 * kRows;
  load_rows<D>(q_rows, q + first_query * head.token_stride, head.token_stride, p.T - first_query,
               head.size);

  const float slope = head.template slope<kAlibi>(p);
  float acc[kRows][D / 32] = {}, max[kRows], sum[kRows] = {};
  for (int r = 0; r < kRows; ++r) max[r] = -INFINITY;
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
    float s[kRows];
    dot_rows<D>(s, q_rows, row, k_rows);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int query = first_query + row + r;
      const bool visible = key0 + lane <= query && (!kDocuments || key0 + lane >= first_keys[r]);
      const float score =
          visible ? add_distance<kAlibi>(s[r] * p.scale, slope, key0 + lane - query) : -INFINITY;
      float new_max = fmaxf(max[r], score);
      for (int i = 16; i > 0; i /= 2)
        new_max = fmaxf(new_max, __shfl_xor_sync(0xFFFFFFFFu, new_max, i));
      // A row whose document begins in a later tile has no maximum yet.
      const float shift = kDocuments && new_max == -INFINITY ? 0.0F : new_max;
      const float correction = expf(max[r] - shift);
      max[r] = new_max;
      s[r] = expf(score - shift);
      sum[r] = sum[r] * correction + s[r];
      if constexpr (kDropout) s[r] *= keep(p, head, query, key0 + lane);
#pragma unroll
      for (int c = 0; c < D / 32; ++c) acc[r][c] *= correction;
    }
    add_weighted_rows<D>(acc, s, v_rows);
  }
  for (int r = 0; r < kRows; ++r) {
    const int query = first_query + row + r;
    for (int i = 16; i > 0; i /= 2) sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], i);
    if (query >= p.T) continue;
    store_row<D>(static_cast<float*>(p.out) + head.out + query * head.out_stride, acc[r],
                 1.0F / sum[r], head.size);
    if (lane == 0) p.lse[head.bh * p.T + query] = max[r] + logf(sum[r]);
  }
}

template <int D>
void forward(cudaStream_t stream, const Params& p, bool dropout) {
  choose_kernel(p, dropout, [&](auto drops, auto documents, auto alibi) {
    launch<D>(stream, p, attention_forward_fp32_kernel<D, drops(), documents(), alibi()>, 2,
              "attention_forward_fp32_kernel");
  });
}

}  // namespace
}  // namespace fp32

void forward_fp32(cudaStream_t stream, const Params& params, bool dropout) {
  choose_tile(params.head_size, [&](auto columns, auto padded) {
    fp32::forward<padded() ? fp32::kPaddedColumns : columns()>(stream, params, dropout);
  });
}

}  // namespace weft::cuda::attention
