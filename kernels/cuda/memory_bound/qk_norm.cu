// LayerNorm and RMSNorm of queries and keys. A head belongs to a group of threads of a warp, whose
// registers hold it between its statistics and the result. Backward computes the statistics again.
//
// Blocks of row 0 of the grid have the queries of all tokens, and those of row 1 the keys, so that
// a thread has the same columns of one weight for all of its heads. In backward it holds their
// sums; a second kernel adds those of the blocks in order.
#include <algorithm>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/pieces.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda_scratch.h"
#include "kernels/operations/qkv.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// Queries (kind 0) or keys (kind 1) of all tokens. Those of a group are rows of `parts`.
struct HeadsOfKind {
  int64_t count;  // of all heads of the kind
  int per_group, first_part;
};

struct QkNormArgs {
  void *packed, *kept;  // (groups, parts, D), (groups, parts - 1, D) x
  const void* weight[2];
  const void* bias[2];  // null in an RMSNorm
  float* partials;      // (grid, kind, weight and bias, D)
  int64_t num_groups;
  int parts, D;
  float weight_offset, epsilon;

  __device__ HeadsOfKind heads_of(int kind) const {
    const int queries = parts - 2;
    return kind == 0 ? HeadsOfKind{num_groups * queries, queries, 0}
                     : HeadsOfKind{num_groups, 1, queries};
  }
};

// How a group of threads shares a head: a thread has kPieces pieces of kSize neighbours.
template <typename T, int kSize_, int kPieces_, int kLanes_>
struct HeadLayout {
  static constexpr int kSize = kSize_, kPieces = kPieces_, kLanes = kLanes_;
  using Type = T;
};

template <int kLanes>
__device__ inline float lanes_sum(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// A thread's part of a head, of a weight or of sums. What is behind the head's end is 0.
template <typename Layout>
struct HeadPart {
  float v[Layout::kPieces][Layout::kSize];

  __device__ static int column(int piece) {
    return (threadIdx.x % Layout::kLanes + piece * Layout::kLanes) * Layout::kSize;
  }
  __device__ void load(const void* data, int64_t first, int D) {
    using T = typename Layout::Type;
#pragma unroll
    for (int p = 0; p < Layout::kPieces; ++p) {
#pragma unroll
      for (int i = 0; i < Layout::kSize; ++i) v[p][i] = 0.0F;
      if (column(p) < D) load_piece(static_cast<const T*>(data) + first + column(p), v[p]);
    }
  }
  __device__ void store(void* data, int64_t first, int D) const {
    using T = typename Layout::Type;
#pragma unroll
    for (int p = 0; p < Layout::kPieces; ++p) {
      if (column(p) < D) store_piece(static_cast<T*>(data) + first + column(p), v[p]);
    }
  }
  // Calls function(element, column) for the elements that the head has.
  template <typename Function>
  __device__ void for_each(int D, Function function) {
#pragma unroll
    for (int p = 0; p < Layout::kPieces; ++p) {
      if (column(p) >= D) continue;
#pragma unroll
      for (int i = 0; i < Layout::kSize; ++i) function(p, i);
    }
  }
};

struct HeadStatistics {
  float mean, rstd;
};

template <typename Layout, bool kRms>
__device__ inline HeadStatistics statistics_of(HeadPart<Layout>& x, int D, float epsilon) {
  float sum = 0.0F, mean = 0.0F;
  if constexpr (!kRms) {
    x.for_each(D, [&](int p, int i) { sum += x.v[p][i]; });
    mean = lanes_sum<Layout::kLanes>(sum) / D;
    sum = 0.0F;
  }
  x.for_each(D, [&](int p, int i) { sum += (x.v[p][i] - mean) * (x.v[p][i] - mean); });
  return {mean, 1.0F / sqrtf(lanes_sum<Layout::kLanes>(sum) / D + epsilon)};
}

template <typename Layout>
__device__ inline void load_weights(HeadPart<Layout>& weight, HeadPart<Layout>& bias,
                                    const QkNormArgs& args) {
  const int kind = blockIdx.y;
  weight.load(args.weight[kind], 0, args.D);
  weight.for_each(args.D, [&](int p, int i) { weight.v[p][i] += args.weight_offset; });
  if (args.bias[kind] != nullptr) bias.load(args.bias[kind], 0, args.D);
}

// Calls body(first element in packed, first element in kept, whether there is such a head) for the
// heads of this group of threads; all threads of a warp take equally many turns.
template <typename Layout, typename Body>
__device__ inline void for_each_head(const QkNormArgs& args, Body body) {
  constexpr int kGroups = kThreads / Layout::kLanes;
  const HeadsOfKind heads = args.heads_of(blockIdx.y);
  const int64_t own = threadIdx.x / Layout::kLanes;
  for (int64_t begin = static_cast<int64_t>(blockIdx.x) * kGroups; begin < heads.count;
       begin += static_cast<int64_t>(gridDim.x) * kGroups) {
    const int64_t head = begin + own;
    const int64_t group = head / heads.per_group;
    const int64_t part = head % heads.per_group + heads.first_part;
    body((group * args.parts + part) * args.D, (group * (args.parts - 1) + part) * args.D,
         head < heads.count);
  }
}

template <typename Layout, bool kRms>
__global__ void __launch_bounds__(kThreads) qk_norm_forward_kernel(QkNormArgs args) {
  HeadPart<Layout> weight, bias, x;
  load_weights(weight, bias, args);
  const int D = args.D;
  for_each_head<Layout>(args, [&](int64_t packed, int64_t kept, bool is_there) {
    x.load(args.packed, is_there ? packed : 0, D);
    const HeadStatistics s = statistics_of<Layout, kRms>(x, D, args.epsilon);
    if (!is_there) return;
    if (args.kept != nullptr) x.store(args.kept, kept, D);
    x.for_each(D, [&](int p, int i) {
      x.v[p][i] = (x.v[p][i] - s.mean) * s.rstd * weight.v[p][i] + (kRms ? 0.0F : bias.v[p][i]);
    });
    x.store(args.packed, packed, D);
  });
}

// With y = gradient * weight and n = (x - mean) * rstd: rstd * (y - mean(y) - n * mean(y * n)),
// without mean(y) in an RMSNorm.
template <typename Layout, bool kRms>
__global__ void __launch_bounds__(kThreads) qk_norm_backward_kernel(QkNormArgs args) {
  constexpr int kGroups = kThreads / Layout::kLanes, kSums = kRms ? 1 : 2;
  HeadPart<Layout> weight, bias, x, gradient, sums[kSums] = {};
  load_weights(weight, bias, args);
  const int D = args.D;
  for_each_head<Layout>(args, [&](int64_t packed, int64_t kept, bool is_there) {
    x.load(args.kept, is_there ? kept : 0, D);
    gradient.load(args.packed, is_there ? packed : 0, D);
    const HeadStatistics s = statistics_of<Layout, kRms>(x, D, args.epsilon);
    float of_y = 0.0F, of_yn = 0.0F;
    x.for_each(D, [&](int p, int i) {
      x.v[p][i] = (x.v[p][i] - s.mean) * s.rstd;
      const float y = gradient.v[p][i] * weight.v[p][i];
      of_y += y;
      of_yn += y * x.v[p][i];
    });
    of_yn = lanes_sum<Layout::kLanes>(of_yn) / D;
    if constexpr (kRms) {
      of_y = 0.0F;
    } else {
      of_y = lanes_sum<Layout::kLanes>(of_y) / D;
    }
    if (!is_there) return;
    x.for_each(D, [&](int p, int i) {
      float& g = gradient.v[p][i];
      sums[0].v[p][i] += g * x.v[p][i];
      if constexpr (!kRms) sums[1].v[p][i] += g;
      g = s.rstd * (g * weight.v[p][i] - of_y - x.v[p][i] * of_yn);
    });
    gradient.store(args.packed, packed, D);
  });

  // The groups of a block leave their sums in turn.
  extern __shared__ float block_sums[];  // (kSums, D)
  for (int turn = 0; turn < kGroups; ++turn) {
    if (static_cast<int>(threadIdx.x / Layout::kLanes) == turn) {
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        sums[k].for_each(D, [&](int p, int i) {
          float& sum = block_sums[k * D + HeadPart<Layout>::column(p) + i];
          sum = turn == 0 ? sums[k].v[p][i] : sum + sums[k].v[p][i];
        });
      }
    }
    __syncthreads();
  }
  float* own = args.partials + (static_cast<int64_t>(blockIdx.x) * 2 + blockIdx.y) * kSums * D;
  for (int i = threadIdx.x; i < kSums * D; i += kThreads) own[i] = block_sums[i];
}

// Calls function(layout) with the one for heads of D numbers. Heads that are no multiples of 16
// bytes are read number by number.
template <typename T, typename Function>
void choose_head_layout(int64_t D, Function function) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t num_vecs = D % kSize == 0 ? D / kSize : 33;
  if (num_vecs <= 8) return function(HeadLayout<T, kSize, 1, 8>{});
  if (num_vecs <= 16) return function(HeadLayout<T, kSize, 1, 16>{});
  if (num_vecs <= 32) return function(HeadLayout<T, kSize, 1, 32>{});
  if (D <= 1024) return function(HeadLayout<T, 1, 32, 32>{});
  throw std::invalid_argument("the norm of queries and keys on CUDA: heads are longer than 1024");
}

QkNormArgs device_args(const Tensor& packed, const Tensor& kept, const QkNormWeights& weights,
                       float weight_offset, float epsilon) {
  return {packed.data(),
          kept.data(),
          {weights.q.data(), weights.k.data()},
          {weights.q_bias.data(), weights.k_bias.data()},
          nullptr,
          packed.shape(0) * packed.shape(1) * packed.shape(2),
          static_cast<int>(packed.shape(3)),
          static_cast<int>(packed.shape(4)),
          weight_offset,
          epsilon};
}

}  // namespace

void run(const Context& context, const QkNormForward& op) {
  const QkNormWeights& w = op.weights;
  require_aligned("qk_norm_forward", {op.qkv, op.kept, w.q, w.k, w.q_bias, w.k_bias});
  const QkNormArgs args = device_args(op.qkv, op.kept, w, op.weight_offset, op.epsilon);
  dispatch(op.qkv.dtype(), [&](auto type) {
    choose_head_layout<decltype(type)>(args.D, [&](auto layout) {
      using Layout = decltype(layout);
      // A group of threads takes four heads, so that weights are read seldom.
      const int64_t heads = args.num_groups * std::max(args.parts - 2, 1);
      const dim3 grid(grid_size(ceil_div(heads, 4 * (kThreads / Layout::kLanes))), 2);
      if (w.q_bias) {
        qk_norm_forward_kernel<Layout, false><<<grid, kThreads, 0, context.stream>>>(args);
      } else {
        qk_norm_forward_kernel<Layout, true><<<grid, kThreads, 0, context.stream>>>(args);
      }
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const QkNormBackward& op) {
  constexpr const char* kName = "qk_norm_backward";
  const QkNormWeights &w = op.weights, &dw = op.gradients;
  require_aligned(kName, {op.dqkv, op.kept, w.q, w.k, w.q_bias, w.k_bias});
  QkNormArgs args = device_args(op.dqkv, op.kept, w, op.weight_offset, op.epsilon);
  args.partials =
      static_cast<float*>(context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)));
  const int blocks = qk_norm_blocks(context.num_multiprocessors), D = args.D;
  const int num_sums = w.q_bias ? 2 : 1;
  dispatch(op.dqkv.dtype(), [&](auto type) {
    choose_head_layout<decltype(type)>(D, [&](auto layout) {
      using Layout = decltype(layout);
      const dim3 grid(static_cast<unsigned>(blocks), 2);
      const size_t shared_bytes = static_cast<size_t>(num_sums) * D * sizeof(float);
      if (w.q_bias) {
        qk_norm_backward_kernel<Layout, false>
            <<<grid, kThreads, shared_bytes, context.stream>>>(args);
      } else {
        qk_norm_backward_kernel<Layout, true>
            <<<grid, kThreads, shared_bytes, context.stream>>>(args);
      }
    });
  });
  CUDA_CHECK(cudaGetLastError());
  const int64_t stride = int64_t{2} * num_sums * D;
  sum_partials(context.stream, {dw.q.as<float>(), dw.q_bias.as<float>()}, args.partials, blocks,
               stride, D, op.accumulate);
  sum_partials(context.stream, {dw.k.as<float>(), dw.k_bias.as<float>()},
               args.partials + num_sums * D, blocks, stride, D, op.accumulate);
}

}  // namespace weft::cuda
