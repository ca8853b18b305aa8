// Some neighbouring lanes hold the query, 16 bytes each, and take key after key; the groups of
// lanes of a block share the keys. The scores of its keys are in shared memory, between the passes
// over keys and over values. Blocks share the keys of a head, kSingleQueryKeys each, from the first
// one that the query sees; a second kernel adds up what they leave.
#include <algorithm>
#include <bit>

#include "kernels/cuda/attention/single_query.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/offset.cuh"
#include "kernels/cuda_scratch.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxHeadSize = 512;
constexpr int kAhead = 4;  // keys that a group of lanes loads before it computes
constexpr int kKeys = kSingleQueryKeys;

struct SingleQuery {
  HeadVectors q, k, v;
  void* out;   // (B,1,H,D)
  float* lse;  // (B,H,1)
  const int32_t* document_bounds;
  const float* slopes;
  float* partials;  // (B*H,chunks,D+2): a sum of values, the largest score, the sum of weights
  int first_query;
  const int32_t* offset;
  int group_size, lanes;
  float scale;

  // The keys that the query of a sample sees.
  struct Keys {
    int begin, end;
    __device__ int num_chunks() const { return (end - begin + kKeys - 1) / kKeys; }
  };
  __device__ Keys keys_of(int b) const {
    const int position = first_query + value_of(offset);
    return {document_bounds == nullptr ? 0 : document_bounds[2 * (b * k.T + position)],
            position + 1};
  }
};

__device__ float max_of_block(float value, float* shared) {
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) value = fmaxf(value, shared[warp]);
  return value;
}

// The pieces of a vector that a lane has: 16 bytes each, or a number where vectors are no multiples
// of that.
template <typename T, int kSize, int kMaxPieces>
struct Pieces {
  Vec<T, kSize> v[kMaxPieces];
  __device__ void load(const T* vector, int lane, int lanes, int num_pieces) {
#pragma unroll
    for (int i = 0; i < kMaxPieces; ++i) {
      const int piece = lane + i * lanes;
      v[i] = piece < num_pieces ? load_vec<kSize>(vector + piece * kSize) : Vec<T, kSize>{};
    }
  }
  __device__ void unpack_piece(int i, float (&out)[kSize]) const {
    if constexpr (kSize == 1) {
      out[0] = static_cast<float>(v[i].v[0]);
    } else {
      unpack(v[i], out);
    }
  }
};

template <typename T, int kSize, int kMaxPieces>
__global__ void __launch_bounds__(kThreads) single_query_kernel(SingleQuery args) {
  extern __shared__ float scores[];  // (kKeys), then (groups,D) partial outputs
  __shared__ float of_warps[kWarps];
  const int H = static_cast<int>(args.q.H), D = static_cast<int>(args.q.D);
  const int b = blockIdx.x / H, h = blockIdx.x % H, key_head = h / args.group_size;
  const int lanes = args.lanes, lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
  const int num_groups = kThreads / lanes, num_pieces = D / kSize;
  const SingleQuery::Keys seen = args.keys_of(b);
  const int begin = seen.begin + static_cast<int>(blockIdx.y) * kKeys;
  const int count = min(kKeys, seen.end - begin), distance = begin + 1 - seen.end;
  if (count <= 0) return;
  const auto* keys = static_cast<const T*>(args.k.data) + args.k.element(b, begin, key_head);
  const auto* values = static_cast<const T*>(args.v.data) + args.v.element(b, begin, key_head);
  const float slope = args.slopes == nullptr ? 0.0F : args.slopes[h];

  float query[kMaxPieces][kSize];
  Pieces<T, kSize, kMaxPieces> loaded[kAhead];
  loaded[0].load(static_cast<const T*>(args.q.data) + args.q.element(b, 0, h), lane, lanes,
                 num_pieces);
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) loaded[0].unpack_piece(i, query[i]);

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
        loaded[a].unpack_piece(i, key);
#pragma unroll
        for (int j = 0; j < kSize; ++j) dot += query[i][j] * key[j];
      }
      for (int offset = lanes / 2; offset > 0; offset /= 2)
        dot += __shfl_xor_sync(0xffffffffu, dot, offset);
      const int key = first + a * num_groups + group;
      if (key >= count) continue;
      const float score = args.scale * dot + slope * static_cast<float>(key + distance);
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
        loaded[a].unpack_piece(i, value);
#pragma unroll
        for (int j = 0; j < kSize; ++j) total[i][j] += probability * value[j];
      }
    }
  }
  float* partials = scores + kKeys;
#pragma unroll
  for (int i = 0; i < kMaxPieces; ++i) {
    const int piece = lane + i * lanes;
    if (piece >= num_pieces) continue;
#pragma unroll
    for (int j = 0; j < kSize; ++j) partials[group * D + piece * kSize + j] = total[i][j];
  }
  __syncthreads();
  const bool is_alone = seen.num_chunks() == 1;
  float* left =
      args.partials + (blockIdx.x * static_cast<int64_t>(gridDim.y) + blockIdx.y) * (D + 2);
  T* out = static_cast<T*>(args.out) + blockIdx.x * static_cast<int64_t>(D);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    float value = 0.0F;
    for (int g = 0; g < num_groups; ++g) value += partials[g * D + d];
    if (is_alone) {
      out[d] = T(value / sum[0]);
    } else {
      left[d] = value;
    }
  }
  if (threadIdx.x != 0) return;
  if (is_alone) {
    args.lse[blockIdx.x] = largest + logf(sum[0]);
  } else {
    left[D] = largest;
    left[D + 1] = sum[0];
  }
}

// Adds up the chunks of a head's keys, in their order, where there are several.
template <typename T>
__global__ void __launch_bounds__(kThreads) add_chunks_kernel(SingleQuery args, int most_chunks) {
  const int D = static_cast<int>(args.q.D);
  const int num_chunks = args.keys_of(blockIdx.x / static_cast<int>(args.q.H)).num_chunks();
  if (num_chunks == 1) return;
  const float* first = args.partials + blockIdx.x * static_cast<int64_t>(most_chunks) * (D + 2);
  float largest = -INFINITY, sum = 0.0F;
  for (int c = 0; c < num_chunks; ++c) largest = fmaxf(largest, first[c * (D + 2) + D]);
  const auto weight = [&](int c) { return expf(first[c * (D + 2) + D] - largest); };
  for (int c = 0; c < num_chunks; ++c) sum += weight(c) * first[c * (D + 2) + D + 1];
  T* out = static_cast<T*>(args.out) + blockIdx.x * static_cast<int64_t>(D);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    float value = 0.0F;
    for (int c = 0; c < num_chunks; ++c) value += weight(c) * first[c * (D + 2) + d];
    out[d] = T(value / sum);
  }
  if (threadIdx.x == 0) args.lse[blockIdx.x] = largest + logf(sum);
}

}  // namespace

bool is_single_query(const AttentionForward& op) {
  return op.qkv.q.T == 1 && op.dropout.p == 0.0F && op.qkv.q.D <= kMaxHeadSize;
}

void single_query_attention(cudaStream_t stream, const AttentionForward& op, void* scratch) {
  const HeadVectors& q = op.qkv.q;
  const bool has_vecs = q.D % 8 == 0;
  const int64_t pieces = has_vecs ? q.D * size_bytes(q.dtype) / 16 : q.D;
  const auto lanes =
      static_cast<int>(std::min<uint64_t>(32, std::bit_ceil(static_cast<uint64_t>(pieces))));
  const SingleQuery args{.q = q,
                         .k = op.qkv.k,
                         .v = op.qkv.v,
                         .out = op.out.data(),
                         .lse = op.lse.as<float>(),
                         .document_bounds = op.document_bounds.as<const int32_t>(),
                         .slopes = op.slopes.as<const float>(),
                         .partials = static_cast<float*>(scratch),
                         .first_query = static_cast<int>(op.first_query),
                         .offset = op.offset.as<const int32_t>(),
                         .group_size = static_cast<int>(q.H / op.qkv.k.H),
                         .lanes = lanes,
                         .scale = op.scale};
  const auto shared = static_cast<size_t>((kKeys + kThreads / lanes * q.D) * 4);
  const auto heads = static_cast<unsigned>(q.B * q.H);
  const auto chunks = static_cast<unsigned>(num_key_chunks(op));
  dispatch(q.dtype, [&](auto type) {
    using T = decltype(type);
    const auto launch = [&](auto kernel) {
      kernel<<<dim3(heads, chunks), kThreads, shared, stream>>>(args);
    };
    if (!has_vecs) {
      launch(single_query_kernel<T, 1, kMaxHeadSize / 32>);
    } else if (pieces <= lanes) {
      launch(single_query_kernel<T, Vec<T>::kSize, 1>);
    } else {
      launch(single_query_kernel<T, Vec<T>::kSize, 4>);
    }
    if (chunks > 1)
      add_chunks_kernel<T><<<heads, kThreads, 0, stream>>>(args, static_cast<int>(chunks));
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
