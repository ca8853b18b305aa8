// Attention in plain fp32, forward and backward, for exact comparisons and small models.
//
// A warp owns kRows rows of one side. Tiles of 32 rows of the other side pass through shared
// memory, with one row per lane for dot products and one column per lane for sums of rows. Sums run
// in the order of the rows.
#include "kernels/cuda/attention/mma.cuh"

namespace weft::cuda::attention {
namespace {

constexpr int kWarps = 8;
constexpr int kRows = 4;  // per warp
constexpr int kOwned = kWarps * kRows;
constexpr int kThreads = 32 * kWarps;

// 32 rows of D values. Rows are padded by four, so that the same column of all rows lies in
// different banks.
template <int D>
using Rows = float[32][D + 4];

// Tiles of this size serve all heads that fill none of the others; the rest of a row is zero.
constexpr int kPaddedColumns = kMaxFlashHeadSize;
template <int D>
__device__ bool is_column(int d, int head_size) {
  return D != kPaddedColumns || d < head_size;
}

template <int D>
__device__ void load_rows(Rows<D>& tile, const float* src, int64_t row_stride, int num_valid,
                          int head_size) {
  for (int i = threadIdx.x; i < 32 * (D / 4); i += kThreads) {
    const int row = i / (D / 4), d = i % (D / 4) * 4;
    const float4 zero = {0, 0, 0, 0};
    *reinterpret_cast<float4*>(&tile[row][d]) =
        row < num_valid && is_column<D>(d, head_size)
            ? *reinterpret_cast<const float4*>(src + row * row_stride + d)
            : zero;
  }
}

// dot[r] = own[first + r] . other[lane]
template <int D>
__device__ void dot_rows(float (&dot)[kRows], const Rows<D>& own, int first, const Rows<D>& other) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int r = 0; r < kRows; ++r) dot[r] = 0;
#pragma unroll 4
  for (int d = 0; d < D; d += 4) {
    const float4 y = *reinterpret_cast<const float4*>(&other[lane][d]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 x = *reinterpret_cast<const float4*>(&own[first + r][d]);
      dot[r] += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
    }
  }
}

// acc[r][c] += sum over the 32 rows l of weight[r] (of lane l) * other[l][32 * c + lane]
template <int D>
__device__ void add_weighted_rows(float (&acc)[kRows][D / 32], const float (&weight)[kRows],
                                  const Rows<D>& other) {
  const int lane = threadIdx.x & 31;
#pragma unroll 4
  for (int l = 0; l < 32; ++l) {
    float w[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) w[r] = __shfl_sync(0xFFFFFFFFu, weight[r], l);
#pragma unroll
    for (int c = 0; c < D / 32; ++c) {
      const float y = other[l][32 * c + lane];
#pragma unroll
      for (int r = 0; r < kRows; ++r) acc[r][c] += w[r] * y;
    }
  }
}

template <int D>
__device__ void store_row(float* dst, const float (&acc)[D / 32], float factor, int head_size) {
#pragma unroll
  for (int c = 0; c < D / 32; ++c) {
    const int d = 32 * c + (threadIdx.x & 31);
    if (is_column<D>(d, head_size)) dst[d] = acc[c] * factor;
  }
}

template <int D>
struct HeadPlace {
  int64_t token_stride, out_stride, qkv, out, element,
      bh;       // strides, and offsets of the head's token 0
  int b, size;  // of the batch, of the head

  __device__ HeadPlace(const Params& p)
      : bh(blockIdx.y),
        b(static_cast<int>(blockIdx.y) / p.H),
        size(D == kPaddedColumns ? p.head_size : D) {
    token_stride = static_cast<int64_t>(3) * p.H * size;
    out_stride = static_cast<int64_t>(p.H) * size;
    qkv = bh / p.H * p.T * token_stride + bh % p.H * 3 * size;
    out = bh / p.H * p.T * out_stride + bh % p.H * size;
  }

  template <bool kAlibi>
  __device__ float slope(const Params& p) const {
    return slope_of<kAlibi>(p, static_cast<int>(bh % p.H), 1.0F);
  }
};

// Loads the first key that each of a warp's rows from `first_query` on sees.
template <bool kDocuments>
__device__ void load_first_keys(int (&first_keys)[kRows], const Params& p, int b, int first_query) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    first_keys[r] = kDocuments ? first_key_of(p, b, first_query + r) : 0;
}

// Returns the first key of the tile where the keys of these queries begin.
template <bool kDocuments>
__device__ int first_tile(const Params& p, int b, int first_query) {
  return kDocuments ? first_key_of(p, b, first_query) / 32 * 32 : 0;
}

// Returns keep_scale where the probability is kept, else 0.
__device__ inline float keep(const Params& p, const auto& head, int query, int key) {
  if (query >= p.T || key > query) return 0.0F;
  const uint32_t word =
      p.kept[head.bh * attention_mask_words(p.T) + attention_mask_word(query, key)];
  return (word >> attention_mask_bit(query, key) & 1) != 0 ? p.dropout.keep_scale : 0.0F;
}

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

// Returns exp(score - lse), directly from lse instead of lse2. Padding rows have lse2 = +inf and give
// 0.
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
void launch(cudaStream_t stream, const Params& p, void (*kernel)(Params), int num_tiles,
            const char* name) {
  const int num_bytes = num_tiles * static_cast<int>(sizeof(Rows<D>));
  allow_shared_memory(reinterpret_cast<const void*>(kernel), num_bytes, name);
  const dim3 grid((p.T + kOwned - 1) / kOwned, p.B * p.H);
  kernel<<<grid, kThreads, num_bytes, stream>>>(p);
  check_launch(name);
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

template <int D>
void forward(cudaStream_t stream, const Params& p, bool dropout) {
  choose_kernel(p, dropout, [&](auto drops, auto documents, auto alibi) {
    launch<D>(stream, p, attention_forward_fp32_kernel<D, drops(), documents(), alibi()>, 2,
              "attention_forward_fp32_kernel");
  });
}

}  // namespace

void forward_fp32(cudaStream_t stream, const Params& params, bool dropout) {
  choose_tile(params.head_size, [&](auto columns, auto padded) {
    forward<padded() ? kPaddedColumns : columns()>(stream, params, dropout);
  });
}

void backward_fp32(cudaStream_t stream, const Params& params, bool dropout) {
  choose_tile(params.head_size, [&](auto columns, auto padded) {
    backward<padded() ? kPaddedColumns : columns()>(stream, params, dropout);
  });
}

}  // namespace weft::cuda::attention
