// Rotary positions of queries and keys, and the way back. A thread has 16 bytes of both elements of
// its pairs; where heads are no multiples of 16 bytes, it has one pair.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/offset.cuh"
#include "kernels/operations/qkv.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

struct RotaryArgs {
  void* qkv;
  const float* angles;  // (S,2,P)
  const int32_t* document_bounds;
  int64_t num_rows, T, G, parts, D, num_pairs;
  int64_t first_position;
  const int32_t* offset;
  int64_t bounds_per_sample;
  float sign;  // The sines' sign: -1 turns back.

  // Returns the cosines of a row's position.
  __device__ const float* angles_of(int64_t row) const {
    const int64_t token = first_position + value_of(offset) + row % T;
    const int64_t begin =
        document_bounds == nullptr ? 0 : document_bounds[2 * (row / T * bounds_per_sample + token)];
    return angles + (token - begin) * 2 * num_pairs;
  }
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
  const float* cosines = args.angles_of(row);
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
  const float* angles = args.angles_of(row) + pair;
  const float cosine = angles[0], sine = args.sign * angles[args.num_pairs];
  T* head = static_cast<T*>(args.qkv) + (index * args.parts + part) * args.D;
  T& first = head[interleaved ? 2 * pair : pair];
  T& second = head[interleaved ? 2 * pair + 1 : args.num_pairs + pair];
  const auto a = static_cast<float>(first), b = static_cast<float>(second);
  first = T(a * cosine - b * sine);
  second = T(b * cosine + a * sine);
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
                             op.first_position,
                             op.offset.as<const int32_t>(),
                             op.document_bounds ? op.document_bounds.shape(1) : 0,
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

}  // namespace weft::cuda
