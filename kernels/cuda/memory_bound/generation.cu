// Keys that are kept, and the choice of tokens: a block for each row of logits, which stays in L2
// between the passes.
#include <algorithm>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/offset.cuh"
#include "kernels/numbers/sampling.h"
#include "kernels/operations/generation.h"

namespace weft::cuda {
namespace {

constexpr int kCopyThreads = 128;
constexpr int kSampleThreads = 1024;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

// A thread copies 16 bytes of a key and of its value, or one element of each.
template <typename Piece>
__global__ void keep_keys_kernel(Piece* keys, Piece* values, const Piece* qkv, int64_t num_pieces,
                                 int64_t T, int64_t S, int64_t G, int64_t rows, int64_t per_vector,
                                 int64_t first_position, const int32_t* offset) {
  first_position += value_of(offset);
  int64_t index = blockIdx.x * static_cast<int64_t>(kCopyThreads) + threadIdx.x;
  if (index >= num_pieces) return;
  const int64_t piece = index % per_vector;
  index /= per_vector;
  const int64_t group = index % G, token = index / G;
  const Piece* key = qkv + ((token * G + group) * rows + rows - 2) * per_vector + piece;
  const int64_t kept = token / T * S + first_position + token % T;
  const int64_t to = (kept * G + group) * per_vector + piece;
  keys[to] = key[0];
  values[to] = key[per_vector];
}

struct SampleArgs {
  int32_t* tokens;
  const int32_t* streams;
  int64_t Vp;
  int vocabulary_size, top_k;
  float temperature, top_p;
  uint64_t seed;
  int64_t counter;
  const int32_t* offset;
};

__device__ uint64_t block_sum_of_integers(uint64_t value) {
  __shared__ unsigned long long sum;
  __syncthreads();  // the previous call's readers are done
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(&sum, value);
  __syncthreads();
  return sum;
}

// Returns the first token with the largest logit.
template <typename T>
__device__ int largest_logit(const T* logits, int num_tokens) {
  __shared__ unsigned long long best_of_block;
  if (threadIdx.x == 0) best_of_block = 0;
  __syncthreads();
  // The first of several tokens with equal logits has the largest number.
  unsigned long long best = 0;
  const auto compare = [&](int v, float logit) {
    const unsigned long long number = static_cast<unsigned long long>(ordered_bits(logit)) << 32 |
                                      (0xffffffffu - static_cast<uint32_t>(v));
    best = number > best ? number : best;
  };
  constexpr int kSize = Vec<T>::kSize;
  const bool is_aligned = reinterpret_cast<uintptr_t>(logits) % sizeof(Vec<T>) == 0;
  const int num_vecs = is_aligned ? num_tokens / kSize : 0;
  for (int i = threadIdx.x; i < num_vecs; i += kSampleThreads) {
    float values[kSize];
    unpack(load_vec(logits + i * kSize), values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) compare(i * kSize + j, values[j]);
  }
  for (int v = num_vecs * kSize + threadIdx.x; v < num_tokens; v += kSampleThreads)
    compare(v, static_cast<float>(logits[v]));
  for (int offset = 16; offset > 0; offset /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, best, offset);
    best = other > best ? other : best;
  }
  if (threadIdx.x % 32 == 0) atomicMax(&best_of_block, best);
  __syncthreads();
  return static_cast<int>(0xffffffffu - static_cast<uint32_t>(best_of_block));
}

// Returns the key of the logit at which the amounts of the logits, from the largest one down, add
// up to `wanted`: it is found digit by digit from sums over all logits that begin with the digits
// found. amount_of(v, key) is that of a token.
template <typename T, typename Amount>
__device__ uint32_t key_where_sum_reaches(const T* logits, int num_tokens, uint64_t wanted,
                                          Amount amount_of) {
  __shared__ unsigned long long sums[kDigits];
  __shared__ uint32_t found;
  __shared__ unsigned long long left;
  __syncthreads();
  if (threadIdx.x == 0) {
    found = 0;
    left = wanted;
  }
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int i = threadIdx.x; i < kDigits; i += kSampleThreads) sums[i] = 0;
    __syncthreads();
    const uint32_t prefix = found,
                   mask = shift == 32 - kDigitBits ? 0 : ~0u << (shift + kDigitBits);
    for (int v = threadIdx.x; v < num_tokens; v += kSampleThreads) {
      const uint32_t key = ordered_bits(static_cast<float>(logits[v]));
      if ((key & mask) != prefix) continue;
      const uint64_t amount = amount_of(v, key);
      if (amount > 0) atomicAdd(&sums[key >> shift & (kDigits - 1)], amount);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = kDigits - 1;
      while (digit > 0 && sums[digit] < left) left -= sums[digit--];
      found = prefix | static_cast<uint32_t>(digit) << shift;
    }
    __syncthreads();
  }
  return found;
}

template <typename T>
__global__ void __launch_bounds__(kSampleThreads)
    sample_kernel(SampleArgs args, const T* all_logits) {
  const int row = blockIdx.x, num_tokens = args.vocabulary_size;
  const T* logits = all_logits + row * args.Vp;
  const int largest = largest_logit(logits, num_tokens);
  if (args.temperature == 0.0F) {
    if (threadIdx.x == 0) args.tokens[row] = largest;
    return;
  }
  const auto maximum = static_cast<float>(logits[largest]);
  const auto weight_of = [&](int v) {
    return sampling_weight(static_cast<float>(logits[v]), maximum, args.temperature);
  };
  uint32_t lowest = 0;
  if (args.top_k > 0 && args.top_k < num_tokens) {
    lowest = key_where_sum_reaches(logits, num_tokens, static_cast<uint64_t>(args.top_k),
                                   [](int, uint32_t) { return uint64_t{1}; });
  }
  const auto kept_weight_of = [&](int v) {
    return ordered_bits(static_cast<float>(logits[v])) < lowest ? uint64_t{0} : weight_of(v);
  };
  // A thread adds up neighbours, because the choice goes through the tokens in their order.
  const int per_thread = (num_tokens + kSampleThreads - 1) / kSampleThreads;
  const int begin = min(static_cast<int>(threadIdx.x) * per_thread, num_tokens);
  const int end = min(begin + per_thread, num_tokens);
  const auto sum_of_thread = [&] {
    uint64_t sum = 0;
    for (int v = begin; v < end; ++v) sum += kept_weight_of(v);
    return sum;
  };
  uint64_t own = sum_of_thread();
  uint64_t total = block_sum_of_integers(own);
  if (args.top_p < 1.0F) {
    const auto wanted = nucleus_weight(args.top_p, total);
    const uint32_t nucleus = key_where_sum_reaches(
        logits, num_tokens, wanted,
        [&](int v, uint32_t key) { return key < lowest ? uint64_t{0} : weight_of(v); });
    lowest = max(lowest, nucleus);
    own = sum_of_thread();
    total = block_sum_of_integers(own);
  }
  const uint64_t target =
      sampling_target(total, args.seed, args.streams[row], args.counter + value_of(args.offset));
  __shared__ unsigned long long sums[kSampleThreads];
  sums[threadIdx.x] = own;
  if (threadIdx.x == 0) args.tokens[row] = largest;  // It stays where all logits are NaN.
  __syncthreads();
  for (int distance = 1; distance < kSampleThreads; distance *= 2) {
    const uint64_t before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : uint64_t{0};
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  uint64_t sum = sums[threadIdx.x] - own;
  if (target < sum || target >= sums[threadIdx.x]) return;
  for (int v = begin; v < end; ++v) {
    sum += kept_weight_of(v);
    if (sum <= target) continue;
    args.tokens[row] = v;
    return;
  }
}

}  // namespace

void run(const Context& context, const KeepKeys& op) {
  const Tensor& qkv = op.qkv;
  const int64_t T = qkv.shape(1), G = qkv.shape(2), rows = qkv.shape(3), D = qkv.shape(4);
  const int64_t num_vectors = qkv.shape(0) * T * G, S = op.keys.shape(1);
  dispatch(qkv.dtype(), [&](auto type) {
    using Element = decltype(type);
    const auto launch = [&](auto piece, int64_t per_vector) {
      using Piece = decltype(piece);
      const int64_t num_pieces = num_vectors * per_vector;
      keep_keys_kernel<<<grid_size(ceil_div(num_pieces, kCopyThreads)), kCopyThreads, 0,
                         context.stream>>>(
          op.keys.as<Piece>(), op.values.as<Piece>(), qkv.as<const Piece>(), num_pieces, T, S, G,
          rows, per_vector, op.first_position, op.offset.as<const int32_t>());
    };
    if (D % Vec<Element>::kSize == 0) {
      require_aligned("keep_keys", {qkv, op.keys, op.values});
      launch(uint4{}, D / Vec<Element>::kSize);
    } else {
      launch(Element{}, D);
    }
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const SampleTokens& op) {
  const SampleArgs args{op.tokens.as<int32_t>(),
                        op.streams.as<const int32_t>(),
                        num_columns(op.logits),
                        static_cast<int>(op.vocabulary_size),
                        static_cast<int>(std::min<int64_t>(op.top_k, op.vocabulary_size)),
                        op.temperature,
                        op.top_p,
                        op.seed,
                        op.counter,
                        op.offset.as<const int32_t>()};
  dispatch(op.logits.dtype(), [&](auto type) {
    using T = decltype(type);
    sample_kernel<T><<<grid_size(num_rows(op.logits)), kSampleThreads, 0, context.stream>>>(
        args, op.logits.as<const T>());
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
