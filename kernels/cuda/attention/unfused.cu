// The softmax of attention whose scores are in memory, forward and backward, and copies of heads in
// and out.
//
// A block has one row of scores, which three passes read; a row of 2048 keys is 8 KiB and stays in
// L1. The last pass replaces the row in place by numbers of x, which have 16 bits or 32: its
// threads read a step of keys, wait for each other and write it, and what a step writes ends before
// the next one begins.
#include "kernels/cuda/attention/arguments/common_params.h"
#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/unfused.h"
#include "kernels/cuda/device/device.cuh"

namespace weft::cuda::attention {
namespace {

constexpr int kThreads = 256;
constexpr int kKeys = 4;  // A thread has so many at a time.
constexpr int kStep = kThreads * kKeys;

// The query and head of this block's row.
template <bool kDropout, bool kDocuments, bool kAlibi>
struct Row {
  int query, position, first_key = 0;
  int64_t token, head;  // among those of all samples
  int64_t offset;       // place of the row in a block of scores
  float scale, slope;
  const uint32_t* kept = nullptr;

  __device__ Row(const Params& p, const ScoreBlock& block)
      : query(block.first_query + static_cast<int>(blockIdx.x)),
        position(block.first_position + static_cast<int>(blockIdx.x)),
        token(static_cast<int64_t>(block.sample) * p.T + query),
        offset(blockIdx.y * block.head_stride + blockIdx.x * block.row_stride),
        scale(p.scale) {
    const int h = block.first_head + static_cast<int>(blockIdx.y);
    head = static_cast<int64_t>(block.sample) * p.H + h;
    slope = slope_of<kAlibi>(p, h, 1.0F);
    if constexpr (kDocuments) first_key = first_key_of(p, block.sample, position);
    if constexpr (kDropout) kept = p.dropout_mask + head * attention_mask_words(p.num_keys);
  }
  __device__ bool sees(int key) const {
    return key <= position && (!kDocuments || key >= first_key);
  }
  __device__ float score(float product, int key) const {
    return add_distance<kAlibi>(product * scale, slope, key - position);
  }
  // Returns the bits of a thread's keys; the first of them is not after the query.
  __device__ uint32_t kept_bits(int key) const {
    if constexpr (!kDropout) return ~0U;
    const uint2 words = *reinterpret_cast<const uint2*>(kept + attention_mask_word(position, key));
    const int shift = attention_mask_bit(position, key);
    return (words.x >> shift & 1) | (words.x >> (shift + 16) & 1) << 1 |
           (words.y >> shift & 1) << 2 | (words.y >> (shift + 16) & 1) << 3;
  }
};

__device__ inline void load_keys(const float* row, int key, float (&values)[kKeys]) {
  unpack(load_vec(row + key), values);
}

// Stores a thread's keys in the row of x that replaces a row of scores.
template <typename T>
__device__ void store_keys(float* row, int key, const float (&values)[kKeys]) {
  T* at = reinterpret_cast<T*>(row) + key;
  if constexpr (sizeof(T) == 4) {
    store_vec(at, pack<T>(values));
  } else {
    using Pair = decltype(round_pair<T>(0.0F, 0.0F));
    const Pair pairs[2] = {round_pair<T>(values[0], values[1]),
                           round_pair<T>(values[2], values[3])};
    *reinterpret_cast<uint2*>(at) = *reinterpret_cast<const uint2*>(pairs);
  }
}

template <typename T, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(kThreads)
    unfused_softmax_forward_kernel(const Params p, const ScoreBlock block) {
  const Row<kDropout, kDocuments, kAlibi> row(p, block);
  float* scores = block.scores + row.offset;
  const int first = static_cast<int>(threadIdx.x) * kKeys;
  float max = -INFINITY, values[kKeys];
  for (int key = first; key <= row.position; key += kStep) {
    load_keys(scores, key, values);
    for (int i = 0; i < kKeys; ++i)
      if (row.sees(key + i)) max = fmaxf(max, row.score(values[i], key + i));
  }
  max = block_max(max);
  float sum[1] = {};
  for (int key = first; key <= row.position; key += kStep) {
    load_keys(scores, key, values);
    for (int i = 0; i < kKeys; ++i)
      if (row.sees(key + i)) sum[0] += expf(row.score(values[i], key + i) - max);
  }
  block_sum(sum);
  const float lse = max + logf(sum[0]);
  if (threadIdx.x == 0) p.lse[row.head * p.T + row.query] = lse;
  const int num_keys = block.num_keys();
  for (int begin = 0; begin < num_keys; begin += kStep) {
    const int key = begin + first;
    float probabilities[kKeys] = {};
    if (key <= row.position) {
      load_keys(scores, key, values);
      const uint32_t kept = row.kept_bits(key);
      for (int i = 0; i < kKeys; ++i) {
        if (row.sees(key + i) && (kept >> i & 1) != 0)
          probabilities[i] = expf(row.score(values[i], key + i) - lse);
      }
    }
    __syncthreads();
    if (key < num_keys) store_keys<T>(scores, key, probabilities);
  }
}

template <typename T, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(kThreads)
    unfused_softmax_backward_kernel(const Params p, const ScoreBlock block) {
  const Row<kDropout, kDocuments, kAlibi> row(p, block);
  float *scores = block.scores + row.offset, *gradients = block.gradients + row.offset;
  const int64_t of_output = (row.token * p.H + row.head % p.H) * p.head_size;
  const T* out = static_cast<const T*>(p.out_in) + of_output;
  const T* dout = static_cast<const T*>(p.dout) + of_output;
  float delta[1] = {};
  for (int d = static_cast<int>(threadIdx.x); d < p.head_size; d += kThreads)
    delta[0] += static_cast<float>(out[d]) * static_cast<float>(dout[d]);
  block_sum(delta);
  const float lse = p.lse[row.head * p.T + row.query];
  const int num_keys = block.num_keys();
  for (int begin = 0; begin < num_keys; begin += kStep) {
    const int key = begin + static_cast<int>(threadIdx.x) * kKeys;
    float probabilities[kKeys] = {}, dscores[kKeys] = {};
    if (key <= row.position) {
      float products[kKeys], dprobabilities[kKeys];
      load_keys(scores, key, products);
      load_keys(gradients, key, dprobabilities);
      const uint32_t kept = row.kept_bits(key);
      for (int i = 0; i < kKeys; ++i) {
        if (!row.sees(key + i)) continue;
        const bool is_kept = (kept >> i & 1) != 0;
        const float probability = expf(row.score(products[i], key + i) - lse);
        const float dprobability = is_kept ? dprobabilities[i] * p.dropout.keep_scale : 0.0F;
        dscores[i] = probability * (dprobability - delta[0]);
        probabilities[i] = is_kept ? probability : 0.0F;
      }
    }
    __syncthreads();
    if (key >= num_keys) continue;
    store_keys<T>(scores, key, probabilities);
    store_keys<T>(gradients, key, dscores);
  }
}

// A thread has 16 bytes of `packed`.
template <typename T>
__global__ void pack_heads_kernel(T* packed, const HeadVectors vectors, const HeadMatrices matrices,
                                  int64_t num_vecs) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= num_vecs) return;
  const int64_t vecs_per_row = matrices.columns / kSize;
  const int64_t d = index % vecs_per_row * kSize, place = index / vecs_per_row;
  const int64_t head = (matrices.first_head + place / vectors.T) / matrices.shared_by;
  const T* from = static_cast<const T*>(vectors.data) +
                  vectors.element(matrices.sample, place % vectors.T, head) + d;
  Vec<T> vec;
#pragma unroll
  for (int i = 0; i < kSize; ++i) vec.v[i] = d + i < vectors.D ? from[i] : T(0.0F);
  store_vec(packed + index * kSize, vec);
}

// A thread has one number, because vectors begin anywhere.
template <typename T>
__global__ void store_heads_kernel(const HeadVectors vectors, const float* sums,
                                   const HeadMatrices matrices, float factor) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  const int64_t width = matrices.num_heads * vectors.D;
  if (index >= vectors.T * width) return;
  const int64_t t = index / width, i = index % width / vectors.D, d = index % vectors.D;
  static_cast<T*>(vectors.data)[vectors.element(matrices.sample, t, matrices.first_head + i) + d] =
      T(sums[(i * vectors.T + t) * matrices.columns + d] * factor);
}

dim3 grid_of(const ScoreBlock& block) {
  return {static_cast<unsigned>(block.num_queries), static_cast<unsigned>(block.num_heads)};
}

}  // namespace

void draw_kept(cudaStream_t stream, const AttentionForward& args) {
  draw_kept(stream, params_of(args));
}

void softmax_forward(cudaStream_t stream, const AttentionForward& args, const ScoreBlock& block) {
  const Params params = params_of(args);
  dispatch(args.qkv.q.dtype, [&](auto type) {
    using T = decltype(type);
    choose_kernel(params, args.dropout.p > 0, [&](auto drops, auto documents, auto alibi) {
      unfused_softmax_forward_kernel<T, drops(), documents(), alibi()>
          <<<grid_of(block), kThreads, 0, stream>>>(params, block);
    });
  });
  check_launch("unfused_softmax_forward_kernel");
}

void softmax_backward(cudaStream_t stream, const AttentionBackward& args, const ScoreBlock& block) {
  const Params params = params_of(args);
  dispatch(args.qkv.q.dtype, [&](auto type) {
    using T = decltype(type);
    choose_kernel(params, args.dropout_p > 0, [&](auto drops, auto documents, auto alibi) {
      unfused_softmax_backward_kernel<T, drops(), documents(), alibi()>
          <<<grid_of(block), kThreads, 0, stream>>>(params, block);
    });
  });
  check_launch("unfused_softmax_backward_kernel");
}

void pack_heads(cudaStream_t stream, void* packed, const HeadVectors& vectors,
                const HeadMatrices& matrices) {
  dispatch(vectors.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t num_vecs = matrices.num_heads * vectors.T * matrices.columns / Vec<T>::kSize;
    pack_heads_kernel<T><<<grid_size(ceil_div(num_vecs, kThreads)), kThreads, 0, stream>>>(
        static_cast<T*>(packed), vectors, matrices, num_vecs);
  });
  check_launch("pack_heads_kernel");
}

void store_heads(cudaStream_t stream, const HeadVectors& vectors, const float* sums,
                 const HeadMatrices& matrices, float factor) {
  const int64_t num_elements = vectors.T * matrices.num_heads * vectors.D;
  dispatch(vectors.dtype, [&](auto type) {
    using T = decltype(type);
    store_heads_kernel<T><<<grid_size(ceil_div(num_elements, kThreads)), kThreads, 0, stream>>>(
        vectors, sums, matrices, factor);
  });
  check_launch("store_heads_kernel");
}

}  // namespace weft::cuda::attention
