// Rows of fp32 in shared memory, for attention in plain fp32.
//
// A warp owns kRows rows of one side. Tiles of 32 rows of the other side pass through shared
// memory, with one row per lane for dot products and one column per lane for sums of rows. Sums run
// in the order of the rows.
#pragma once

#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/arguments/params.h"

namespace weft::cuda::attention::fp32 {

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

template <int D>
void launch(cudaStream_t stream, const Params& p, void (*kernel)(Params), int num_tiles,
            const char* name) {
  const int num_bytes = num_tiles * static_cast<int>(sizeof(Rows<D>));
  allow_shared_memory(reinterpret_cast<const void*>(kernel), num_bytes, name);
  const dim3 grid((p.T + kOwned - 1) / kOwned, p.B * p.H);
  kernel<<<grid, kThreads, num_bytes, stream>>>(p);
  check_launch(name);
}

}  // namespace weft::cuda::attention::fp32
