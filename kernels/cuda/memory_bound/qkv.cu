// What becomes of queries, keys and values before attention: rotary positions, and keys and values
// that a group of queries shares; and the backward of both. A block has a token, whose angles stay in L1;
// a thread has 16 bytes of an output, or of both elements of its pairs. Where heads, or their rotated pairs,
// are no multiples of 16 bytes, a thread has one element or pair, and turning is a pass of its own, with the same bits.
#include <algorithm>

#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/memory_bound/rotation.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// The tokens of the tensors, and their place in the sample.
struct Tokens {
  int64_t num_rows;
  int T;
  __device__ int64_t row() const { return blockIdx.x; }
  __device__ int token() const { return static_cast<int>(row() % T); }
};

// Turns `num_parts` parts of each head in place, from `first_part` on.
template <typename T>
__global__ void rotate_kernel(T* qkv, RotationArgs rotation, Tokens tokens, int H, int D,
                              int first_part, int num_parts, bool back) {
  constexpr int kSize = Vec<T>::kSize;
  const float* angles = angles_of(rotation, tokens.row(), tokens.token());
  T* of_token = qkv + tokens.row() * H * 3 * D;
  const int vecs = (rotation.interleaved ? 2 : 1) * rotation.num_pairs / kSize;
  for (int i = threadIdx.x; i < H * num_parts * vecs; i += blockDim.x) {
    const int vec = i % vecs, part = i / vecs % num_parts, head = i / vecs / num_parts;
    T* data = of_token + (head * 3 + first_part + part) * D;
    const int other = VecTurn<T>::partner(rotation, vec);
    const Vec<T> first = load_vec(data + vec * kSize), second = load_vec(data + other * kSize);
    const VecTurn<T> turn(rotation, angles, vec, back);
    if (rotation.interleaved) {
      store_vec(data + vec * kSize, turn.turned(first, first));
    } else {
      const VecTurn<T> turn_of_second(rotation, angles, other, back);
      store_vec(data + vec * kSize, turn.turned(first, second));
      store_vec(data + other * kSize, turn_of_second.turned(second, first));
    }
  }
}

template <typename T>
__global__ void expand_groups_kernel(T* expanded, const T* grouped, RotationArgs rotation,
                                     Tokens tokens, int G, int queries, int D) {
  constexpr int kSize = Vec<T>::kSize;
  const bool turns = rotation.angles != nullptr;
  const float* angles = turns ? angles_of(rotation, tokens.row(), tokens.token()) : nullptr;
  expanded += tokens.row() * G * queries * 3 * D;
  grouped += tokens.row() * G * (queries + 2) * D;
  const int vecs = D / kSize;
  for (int i = threadIdx.x; i < G * queries * 3 * vecs; i += blockDim.x) {
    const int vec = i % vecs, part = i / vecs % 3, head = i / vecs / 3, group = head / queries;
    const int source = part == 0 ? head - group * queries : queries + part - 1;
    const T* from = grouped + (group * (queries + 2) + source) * D;
    const auto load = [&](int at) { return load_vec(from + at * kSize); };
    store_vec(expanded + i * kSize, turns && part < 2
                                        ? turned_vec<T>(rotation, angles, vec, /*back=*/false, load)
                                        : load(vec));
  }
}

template <typename T>
__global__ void sum_groups_kernel(T* grouped, const T* expanded, RotationArgs rotation,
                                  Tokens tokens, int G, int queries, int D) {
  constexpr int kSize = Vec<T>::kSize;
  const bool turns = rotation.angles != nullptr;
  const float* angles = turns ? angles_of(rotation, tokens.row(), tokens.token()) : nullptr;
  expanded += tokens.row() * G * queries * 3 * D;
  grouped += tokens.row() * G * (queries + 2) * D;
  const int vecs = D / kSize;
  for (int i = threadIdx.x; i < G * (queries + 2) * vecs; i += blockDim.x) {
    const int vec = i % vecs, source = i / vecs % (queries + 2), group = i / vecs / (queries + 2);
    const T* of_group = expanded + group * queries * 3 * D;
    const auto query_gradient = [&](int at) {
      return load_vec(of_group + source * 3 * D + at * kSize);
    };
    const auto sum = [&](int at) {
      const T* part = of_group + (source - queries + 1) * D + at * kSize;
      float total[kSize] = {};
      for (int query = 0; query < queries; ++query) {
        float values[kSize];
        unpack(load_vec(part + query * 3 * D), values);
#pragma unroll
        for (int j = 0; j < kSize; ++j) total[j] += values[j];
      }
      return pack<T>(total);
    };
    T* to = grouped + i * kSize;
    if (source < queries) {
      store_vec(to, turns ? turned_vec<T>(rotation, angles, vec, /*back=*/true, query_gradient)
                          : query_gradient(vec));
    } else {
      const bool is_key = source == queries;
      store_vec(to, turns && is_key ? turned_vec<T>(rotation, angles, vec, /*back=*/true, sum)
                                    : sum(vec));
    }
  }
}

// Turns parts of each head of qkv (B,T,H,parts,D) in place, for any sizes.
template <typename T>
__global__ void rotate_pairs_kernel(T* qkv, RotationArgs rotation, Tokens tokens, int H, int parts,
                                    int D, int first_part, int num_parts, bool back) {
  const float* angles = angles_of(rotation, tokens.row(), tokens.token());
  T* of_token = qkv + tokens.row() * H * parts * D;
  const int pairs = rotation.num_pairs;
  for (int i = threadIdx.x; i < H * num_parts * pairs; i += blockDim.x) {
    const int pair = i % pairs, part = i / pairs % num_parts, head = i / pairs / num_parts;
    T* data = of_token + (head * parts + first_part + part) * D;
    T& first = data[rotation.interleaved ? 2 * pair : pair];
    T& second = data[rotation.interleaved ? 2 * pair + 1 : pairs + pair];
    const float cosine = angles[pair], sine = (back ? -1.0F : 1.0F) * angles[pairs + pair];
    const auto a = static_cast<float>(first), b = static_cast<float>(second);
    first = T(turned(a, b, cosine, -sine));
    second = T(turned(b, a, cosine, sine));
  }
}

template <typename T>
__global__ void expand_elements_kernel(T* expanded, const T* grouped, Tokens tokens, int G,
                                       int queries, int D) {
  expanded += tokens.row() * G * queries * 3 * D;
  grouped += tokens.row() * G * (queries + 2) * D;
  for (int i = threadIdx.x; i < G * queries * 3 * D; i += blockDim.x) {
    const int part = i / D % 3, head = i / D / 3, group = head / queries;
    const int source = part == 0 ? head - group * queries : queries + part - 1;
    expanded[i] = grouped[(group * (queries + 2) + source) * D + i % D];
  }
}

template <typename T>
__global__ void sum_elements_kernel(T* grouped, const T* expanded, Tokens tokens, int G,
                                    int queries, int D) {
  expanded += tokens.row() * G * queries * 3 * D;
  grouped += tokens.row() * G * (queries + 2) * D;
  for (int i = threadIdx.x; i < G * (queries + 2) * D; i += blockDim.x) {
    const int source = i / D % (queries + 2), group = i / D / (queries + 2);
    const T* of_group = expanded + group * queries * 3 * D + i % D;
    if (source < queries) {
      grouped[i] = of_group[source * 3 * D];
      continue;
    }
    float total = 0;
    for (int query = 0; query < queries; ++query)
      total += static_cast<float>(of_group[(query * 3 + source - queries + 1) * D]);
    grouped[i] = T(total);
  }
}

// A block's threads: as many as a token has vectors.
unsigned block_size(int64_t num_vecs) {
  return static_cast<unsigned>(std::min<int64_t>(kThreads, ceil_div(num_vecs, 32) * 32));
}

Tokens tokens_of(const Tensor& tensor) {
  return {tensor.shape(0) * tensor.shape(1), static_cast<int>(tensor.shape(1))};
}

// Returns whether vectors of 16 bytes of T fit heads and rotated pairs.
template <typename T>
bool fits_vectors(int64_t D, const RotationArgs& rotation) {
  return D % Vec<T>::kSize == 0 && rotation.num_pairs % Vec<T>::kSize == 0;
}

}  // namespace

void rotate(cudaStream_t stream, Tensor qkv, const RotationArgs& rotation, int first_part,
            int num_parts, bool back) {
  const Tokens tokens = tokens_of(qkv);
  const int H = static_cast<int>(qkv.shape(2)), parts = static_cast<int>(qkv.shape(3)),
            D = static_cast<int>(qkv.shape(4));
  const unsigned blocks = grid_size(tokens.num_rows);
  dispatch(qkv.dtype(), [&](auto type) {
    using T = decltype(type);
    if (parts != 3 || !fits_vectors<T>(D, rotation)) {
      const unsigned threads = block_size(static_cast<int64_t>(H) * num_parts * rotation.num_pairs);
      rotate_pairs_kernel<T><<<blocks, threads, 0, stream>>>(qkv.as<T>(), rotation, tokens, H,
                                                             parts, D, first_part, num_parts, back);
      return;
    }
    const int64_t elements = (rotation.interleaved ? 2 : 1) * rotation.num_pairs;
    const unsigned threads = block_size(H * num_parts * elements / Vec<T>::kSize);
    rotate_kernel<T><<<blocks, threads, 0, stream>>>(qkv.as<T>(), rotation, tokens, H, D,
                                                     first_part, num_parts, back);
  });
  CUDA_CHECK(cudaGetLastError());
}

void rotate(cudaStream_t stream, Tensor qkv, const Rotation& rotation, bool back) {
  const int num_turning = static_cast<int>(qkv.shape(3)) - 1;  // all but values
  rotate(stream, qkv, rotation_args(rotation), 0, num_turning, back);
}

void expand_groups(cudaStream_t stream, Tensor expanded, Tensor grouped, const Rotation& rotation) {
  const Tokens tokens = tokens_of(grouped);
  const RotationArgs turn = rotation_args(rotation);
  const int G = static_cast<int>(grouped.shape(2)),
            queries = static_cast<int>(grouped.shape(3)) - 2,
            D = static_cast<int>(grouped.shape(4));
  const int64_t elements = static_cast<int64_t>(G) * queries * 3 * D;
  const unsigned blocks = grid_size(tokens.num_rows);
  dispatch(grouped.dtype(), [&](auto type) {
    using T = decltype(type);
    if (fits_vectors<T>(D, turn)) {
      expand_groups_kernel<T><<<blocks, block_size(elements / Vec<T>::kSize), 0, stream>>>(
          expanded.as<T>(), grouped.as<const T>(), turn, tokens, G, queries, D);
      return;
    }
    expand_elements_kernel<T><<<blocks, block_size(elements), 0, stream>>>(
        expanded.as<T>(), grouped.as<const T>(), tokens, G, queries, D);
    if (rotation.angles) rotate(stream, expanded, rotation, /*back=*/false);
  });
  CUDA_CHECK(cudaGetLastError());
}

void sum_groups(cudaStream_t stream, Tensor grouped, Tensor expanded, const Rotation& rotation) {
  const Tokens tokens = tokens_of(grouped);
  const RotationArgs turn = rotation_args(rotation);
  const int G = static_cast<int>(grouped.shape(2)),
            queries = static_cast<int>(grouped.shape(3)) - 2,
            D = static_cast<int>(grouped.shape(4));
  const int64_t elements = static_cast<int64_t>(G) * (queries + 2) * D;
  const unsigned blocks = grid_size(tokens.num_rows);
  dispatch(grouped.dtype(), [&](auto type) {
    using T = decltype(type);
    if (fits_vectors<T>(D, turn)) {
      sum_groups_kernel<T><<<blocks, block_size(elements / Vec<T>::kSize), 0, stream>>>(
          grouped.as<T>(), expanded.as<const T>(), turn, tokens, G, queries, D);
      return;
    }
    sum_elements_kernel<T><<<blocks, block_size(elements), 0, stream>>>(
        grouped.as<T>(), expanded.as<const T>(), tokens, G, queries, D);
    if (rotation.angles) rotate(stream, grouped, rotation, /*back=*/true);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
