// What becomes of queries, keys and values before attention: rotary positions, and keys and values
// that a group of queries shares; and the backward of both. A thread has 16 bytes of an output, or
// of both elements of its pairs; where heads are no multiples of 16 bytes, it has one element or
// pair.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/pieces.cuh"
#include "kernels/operations/qkv.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

struct RotaryArgs {
  void* qkv;
  const float* angles;  // (S,2,P)
  const int32_t* document_bounds;
  int64_t num_rows, T, G, parts, D, num_pairs;
  float sign;  // of the sines: -1 turns back
};

// Neighbouring threads have neighbouring vectors of a head's rotated elements: of the first P, and
// with them of the second P, or with kInterleaved of all 2P.
template <typename T, bool kInterleaved>
__global__ void rotate_kernel(RotaryArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t vecs_per_head = (kInterleaved ? 2 : 1) * args.num_pairs / kSize;
  const int64_t turned = args.parts - 1;  // queries and the key of a group
  int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= args.num_rows * args.G * turned * vecs_per_head) return;
  const int64_t vec = index % vecs_per_head;
  index /= vecs_per_head;
  const int64_t part = index % turned;
  index /= turned;
  const int64_t row = index / args.G;
  const int64_t begin = args.document_bounds == nullptr ? 0 : args.document_bounds[2 * row];
  const float* cosines = args.angles + (row % args.T - begin) * 2 * args.num_pairs;
  const float* sines = cosines + args.num_pairs;
  T* head = static_cast<T*>(args.qkv) + (index * args.parts + part) * args.D + vec * kSize;
  if constexpr (kInterleaved) {
    float values[kSize];
    unpack(load_vec(head), values);
#pragma unroll
    for (int i = 0; i < kSize; i += 2) {
      const int64_t pair = (vec * kSize + i) / 2;
      const float cosine = cosines[pair], sine = args.sign * sines[pair], a = values[i];
      values[i] = a * cosine - values[i + 1] * sine;
      values[i + 1] = values[i + 1] * cosine + a * sine;
    }
    store_vec(head, pack<T>(values));
  } else {
    float a[kSize], b[kSize];
    unpack(load_vec(head), a);
    unpack(load_vec(head + args.num_pairs), b);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float cosine = cosines[vec * kSize + i], sine = args.sign * sines[vec * kSize + i];
      const float old_a = a[i];
      a[i] = old_a * cosine - b[i] * sine;
      b[i] = b[i] * cosine + old_a * sine;
    }
    store_vec(head, pack<T>(a));
    store_vec(head + args.num_pairs, pack<T>(b));
  }
}

// The same for any sizes: a thread has a pair.
template <typename T>
__global__ void rotate_pairs_kernel(RotaryArgs args, bool interleaved) {
  const int64_t turned = args.parts - 1;
  int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= args.num_rows * args.G * turned * args.num_pairs) return;
  const int64_t pair = index % args.num_pairs;
  index /= args.num_pairs;
  const int64_t part = index % turned;
  index /= turned;
  const int64_t row = index / args.G;
  const int64_t begin = args.document_bounds == nullptr ? 0 : args.document_bounds[2 * row];
  const float* angles = args.angles + (row % args.T - begin) * 2 * args.num_pairs + pair;
  const float cosine = angles[0], sine = args.sign * angles[args.num_pairs];
  T* head = static_cast<T*>(args.qkv) + (index * args.parts + part) * args.D;
  T& first = head[interleaved ? 2 * pair : pair];
  T& second = head[interleaved ? 2 * pair + 1 : args.num_pairs + pair];
  const auto a = static_cast<float>(first), b = static_cast<float>(second);
  first = T(a * cosine - b * sine);
  second = T(b * cosine + a * sine);
}

// A head is `pieces_per_head` pieces.
template <typename T, int kSize>
__global__ void expand_groups_kernel(T* expanded, const T* grouped, int64_t num_pieces,
                                     int64_t pieces_per_head, int64_t queries) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= num_pieces) return;
  const int64_t piece = index % pieces_per_head, part = index / pieces_per_head % 3;
  const int64_t head = index / (3 * pieces_per_head), group = head / queries;
  const int64_t source = part == 0 ? head - group * queries : queries + part - 1;
  const int64_t from = ((group * (queries + 2) + source) * pieces_per_head + piece) * kSize;
  copy_piece<kSize>(expanded + index * kSize, grouped + from);
}

template <typename T, int kSize>
__global__ void sum_groups_kernel(T* grouped, const T* expanded, int64_t num_pieces,
                                  int64_t pieces_per_head, int64_t queries) {
  const int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (index >= num_pieces) return;
  const int64_t piece = index % pieces_per_head, source = index / pieces_per_head % (queries + 2);
  const int64_t group = index / ((queries + 2) * pieces_per_head);
  const auto gradient = [&](int64_t query, int64_t part) {
    return expanded + (((group * queries + query) * 3 + part) * pieces_per_head + piece) * kSize;
  };
  if (source < queries) {
    copy_piece<kSize>(grouped + index * kSize, gradient(source, 0));
    return;
  }
  float total[kSize] = {};
  for (int64_t query = 0; query < queries; ++query) {
    float values[kSize];
    load_piece(gradient(query, source - queries + 1), values);
#pragma unroll
    for (int i = 0; i < kSize; ++i) total[i] += values[i];
  }
  store_piece(grouped + index * kSize, total);
}

}  // namespace

void run(const Context& context, const Rotary& op) {
  const Tensor& qkv = op.qkv;
  require_aligned("rotate", {qkv, op.angles});
  const RotaryArgs on_device{qkv.data(),
                             op.angles.as<const float>(),
                             op.document_bounds.as<const int32_t>(),
                             qkv.shape(0) * qkv.shape(1),
                             qkv.shape(1),
                             qkv.shape(2),
                             qkv.shape(3),
                             qkv.shape(4),
                             op.angles.shape(2),
                             op.inverse ? -1.0F : 1.0F};
  dispatch(qkv.dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t num_heads = on_device.num_rows * on_device.G * (on_device.parts - 1);
    if (on_device.D % Vec<T>::kSize != 0 || on_device.num_pairs % Vec<T>::kSize != 0) {
      const unsigned blocks = grid_size(ceil_div(num_heads * on_device.num_pairs, kThreads));
      rotate_pairs_kernel<T><<<blocks, kThreads, 0, context.stream>>>(on_device, op.interleaved);
      return;
    }
    const int64_t elements = (op.interleaved ? 2 : 1) * on_device.num_pairs;
    const unsigned blocks = grid_size(ceil_div(num_heads * elements / Vec<T>::kSize, kThreads));
    if (op.interleaved) {
      rotate_kernel<T, true><<<blocks, kThreads, 0, context.stream>>>(on_device);
    } else {
      rotate_kernel<T, false><<<blocks, kThreads, 0, context.stream>>>(on_device);
    }
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const ExpandGroups& op) {
  const Tensor &expanded = op.expanded, &grouped = op.grouped;
  require_aligned("expand_groups", {expanded, grouped});
  dispatch(grouped.dtype(), [&](auto type) {
    using T = decltype(type);
    choose_piece<T>(grouped.shape(4), [&](auto size) {
      const int64_t num_pieces = expanded.num_elements() / size();
      const unsigned blocks = grid_size(ceil_div(num_pieces, kThreads));
      expand_groups_kernel<T, size()><<<blocks, kThreads, 0, context.stream>>>(
          expanded.as<T>(), grouped.as<const T>(), num_pieces, grouped.shape(4) / size(),
          grouped.shape(3) - 2);
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const SumGroups& op) {
  const Tensor &grouped = op.grouped, &expanded = op.expanded;
  require_aligned("sum_groups", {grouped, expanded});
  dispatch(grouped.dtype(), [&](auto type) {
    using T = decltype(type);
    choose_piece<T>(grouped.shape(4), [&](auto size) {
      const int64_t num_pieces = grouped.num_elements() / size();
      const unsigned blocks = grid_size(ceil_div(num_pieces, kThreads));
      sum_groups_kernel<T, size()><<<blocks, kThreads, 0, context.stream>>>(
          grouped.as<T>(), expanded.as<const T>(), num_pieces, grouped.shape(4) / size(),
          grouped.shape(3) - 2);
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
