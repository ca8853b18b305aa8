// Some neighbouring lanes hold the query, 16 bytes each, and take key after key; the groups of
// lanes of a block share the keys. The scores of all keys are in shared memory, between the passes
// over keys and over values.
#include <algorithm>
#include <bit>

#include "kernels/cuda/attention/single_query.h"
#include "kernels/cuda/device/device.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxHeadSize = 256;
constexpr int kAhead = 4;  // keys that a group of lanes loads before it computes
constexpr int64_t kMaxKeys = 8192;

struct SingleQuery {
  HeadVectors q, k, v;
  void* out;   // (B,1,H,D)
  float* lse;  // (B,H,1)
  const int32_t* document_bounds;
  const float* slopes;
  int num_keys;  // before the query's position, and that itself
  int group_size, lanes;
  float scale;
};

__device__ float max_of_block(float value, float* shared) {
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) value = fmaxf(value, shared[warp]);
  return value;
}

// The pieces of a vector that a lane has, 16 bytes each.
template <typename T, int kMaxPieces>
struct Pieces {
  Vec<T> v[kMaxPieces];
  __device__ void load(const T* vector, int lane, int lanes, int num_pieces) {
#pragma unroll
    for (int i = 0; i < kMaxPieces; ++i) {
      const int piece = lane + i * lanes;
      v[i] = piece < num_pieces ? load_vec(vector + piece * Vec<T>::kSize) : Vec<T>{};
    }
  }
};

template <typename T, int kMaxPieces>
__global__ void __launch_bounds__(kThreads) single_query_kernel(SingleQuery args) {
  constexpr int kSize = Vec<T>::kSize;
  extern __shared__ float scores[];  // (num_keys - begin), then (groups,D) partial outputs
  __shared__ float of_warps[kWarps];
  const int H = static_cast<int>(args.q.H), D = static_cast<int>(args.q.D);
  const int b = blockIdx.x / H, h = blockIdx.x % H, key_head = h / args.group_size;
  const int lanes = args.lanes, lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
  const int num_groups = kThreads / lanes, num_pieces = D / kSize;
  const int64_t Tk = args.k.T;
  const int begin =
      args.document_bounds == nullptr ? 0 : args.document_bounds[2 * (b * Tk + args.num_keys - 1)];
  const int count = args.num_keys - begin;
  const auto* keys = static_cast<const T*>(args.k.data) + args.k.element(b, begin, key_head);
  const auto* values = static_cast<const T*>(args.v.data) + args.v.element(b, begin, key_head);
  const float slope = args.slopes == nullptr ? 0.0F : args.slopes[h];

  float query[kMaxPieces][kSize];
  Pieces<T, kMaxPieces> loaded[kAhead];
  loaded[0].load(static_cast<const T*>(args.q.data) + args.q.element(b, 0, h), lane, lanes,
                 num_pieces);
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) unpack(loaded[0].v[i], query[i]);

  // Loads the vectors of kAhead keys; groups whose keys are beyond the last one load that.
  const auto load = [&](const T* vectors, int64_t stride, int first) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int key = min(first + a * num_groups + group, count - 1);
      loaded[a].load(vectors + key * stride, lane, lanes, num_pieces);
    }
  };
  float largest = -INFINITY;
  for (int first = 0; first < count; first += kAhead * num_groups) {
    load(keys, args.k.token_stride, first);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float dot = 0.0F;
#pragma unroll
      for (int i = 0; i < kMaxPieces; ++i) {
        float key[kSize];
        unpack(loaded[a].v[i], key);
#pragma unroll
        for (int j = 0; j < kSize; ++j) dot += query[i][j] * key[j];
      }
      for (int offset = lanes / 2; offset > 0; offset /= 2)
        dot += __shfl_xor_sync(0xffffffffu, dot, offset);
      const int key = first + a * num_groups + group;
      if (key >= count) continue;
      const float score = args.scale * dot + slope * static_cast<float>(key + 1 - count);
      if (lane == 0) scores[key] = score;
      largest = fmaxf(largest, score);
    }
  }
  largest = max_of_block(largest, of_warps);
  float sum[1] = {0.0F};
  for (int key = threadIdx.x; key < count; key += kThreads) {
    const float probability = expf(scores[key] - largest);
    scores[key] = probability;
    sum[0] += probability;
  }
  block_sum(sum);  // and all scores are there
  if (threadIdx.x == 0) args.lse[blockIdx.x] = largest + logf(sum[0]);

  float total[kMaxPieces][kSize] = {};
  for (int first = 0; first < count; first += kAhead * num_groups) {
    load(values, args.v.token_stride, first);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int key = first + a * num_groups + group;
      const float probability = key < count ? scores[key] : 0.0F;
#pragma unroll
      for (int i = 0; i < kMaxPieces; ++i) {
        float value[kSize];
        unpack(loaded[a].v[i], value);
#pragma unroll
        for (int j = 0; j < kSize; ++j) total[i][j] += probability * value[j];
      }
    }
  }
  float* partials = scores + args.num_keys;
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    const int piece = lane + i * lanes;
    if (piece >= num_pieces) continue;
#pragma unroll
    for (int j = 0; j < kSize; ++j) partials[group * D + piece * kSize + j] = total[i][j];
  }
  __syncthreads();
  T* out = static_cast<T*>(args.out) + blockIdx.x * static_cast<int64_t>(D);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    float value = 0.0F;
    for (int g = 0; g < num_groups; ++g) value += partials[g * D + d];
    out[d] = T(value / sum[0]);
  }
}

}  // namespace

bool is_single_query(const AttentionForward& op) {
  const int64_t D = op.qkv.q.D;
  return op.qkv.q.T == 1 && op.dropout.p == 0.0F && D % 8 == 0 && D <= kMaxHeadSize &&
         op.first_query < kMaxKeys;
}

void single_query_attention(cudaStream_t stream, const AttentionForward& op) {
  const HeadVectors& q = op.qkv.q;
  const int64_t pieces = q.D * size_bytes(q.dtype) / 16;
  const auto lanes =
      static_cast<int>(std::min<uint64_t>(32, std::bit_ceil(static_cast<uint64_t>(pieces))));
  const SingleQuery args{.q = q,
                         .k = op.qkv.k,
                         .v = op.qkv.v,
                         .out = op.out.data(),
                         .lse = op.lse.as<float>(),
                         .document_bounds = op.document_bounds.as<const int32_t>(),
                         .slopes = op.slopes.as<const float>(),
                         .num_keys = static_cast<int>(op.first_query + 1),
                         .group_size = static_cast<int>(q.H / op.qkv.k.H),
                         .lanes = lanes,
                         .scale = op.scale};
  const auto shared = static_cast<size_t>((args.num_keys + kThreads / lanes * q.D) * 4);
  dispatch(q.dtype, [&](auto type) {
    using T = decltype(type);
    const unsigned blocks = grid_size(q.B * q.H);
    if (pieces <= lanes) {
      single_query_kernel<T, 1><<<blocks, kThreads, shared, stream>>>(args);
    } else {
      single_query_kernel<T, 2><<<blocks, kThreads, shared, stream>>>(args);
    }
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
