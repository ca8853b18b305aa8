// LayerNorm fused with the residual stream.
//
// Forward reads its inputs once and writes its outputs once: the row stays in registers, in its
// storage type, between the mean, the variance around that mean, and the result. So does backward,
// which also sums dweight and dbias over the rows of a block in registers; a second kernel adds the
// blocks' sums in order.
//
// A row of up to 256 16-byte vectors (forward; 96 backward) belongs to a warp, so that it needs no
// barrier. A longer one belongs to a block with few vectors per thread.
#include <algorithm>

#include "kernels/cuda/memory_bound/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kWarpRowThreads = 256;  // 8 rows a block

template <bool kWarpPerRow, int kCount>
__device__ inline void row_sum(float (&values)[kCount]) {
  if constexpr (kWarpPerRow) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
  } else {
    block_sum(values);
  }
}

struct ForwardArgs {
  void *normed, *residual_out;
  float *mean, *rstd;
  const void *inp, *branch, *weight, *bias;
  int64_t N, C;
  float epsilon;
  DropoutMask mask;
};

template <typename T, int kVecs, bool kWarpPerRow, bool kResidual>
__global__ void layernorm_forward_kernel(ForwardArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  const int lane = kWarpPerRow ? threadIdx.x % 32 : threadIdx.x;
  const int group = kWarpPerRow ? 32 : blockDim.x;
  const int64_t row =
      kWarpPerRow ? blockIdx.x * (kWarpRowThreads / 32LL) + threadIdx.x / 32 : blockIdx.x;
  if (row >= args.N) return;  // a whole warp, and never a part of a block that shares a row
  const int num_vecs = static_cast<int>(args.C / kSize);
  const int64_t first = row * args.C;

  Vec<T> x[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec < num_vecs) x[i] = load_vec(static_cast<const T*>(args.inp) + first + vec * kSize);
  }
  if constexpr (kResidual) {
    Vec<T> branch[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int vec = lane + i * group;
      if (vec < num_vecs)
        branch[i] = load_vec(static_cast<const T*>(args.branch) + first + vec * kSize);
    }
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int vec = lane + i * group;
      if (vec >= num_vecs) continue;
      float sum[kSize], added[kSize];
      unpack(x[i], sum);
      unpack(branch[i], added);
      if (args.mask.threshold != 0) apply_mask(args.mask, first + vec * kSize, added);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum[j] += added[j];
      x[i] = pack(sum);
      store_vec(static_cast<T*>(args.residual_out) + first + vec * kSize, x[i]);
    }
  }

  float total[1] = {};
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    if (lane + i * group >= num_vecs) continue;
    float values[kSize];
    unpack(x[i], values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) total[0] += values[j];
  }
  row_sum<kWarpPerRow>(total);
  const float mean = total[0] / args.C;
  total[0] = 0.0F;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    if (lane + i * group >= num_vecs) continue;
    float values[kSize];
    unpack(x[i], values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) total[0] += (values[j] - mean) * (values[j] - mean);
  }
  row_sum<kWarpPerRow>(total);
  const float rstd = 1.0F / sqrtf(total[0] / args.C + args.epsilon);
  if (lane == 0) {
    args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec >= num_vecs) continue;
    float values[kSize], weight[kSize], bias[kSize];
    unpack(x[i], values);
    unpack(load_vec(static_cast<const T*>(args.weight) + vec * kSize), weight);
    unpack(load_vec(static_cast<const T*>(args.bias) + vec * kSize), bias);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = (values[j] - mean) * rstd * weight[j] + bias[j];
    store_vec(static_cast<T*>(args.normed) + first + vec * kSize, pack(values));
  }
}

template <typename T, int kVecs, bool kWarpPerRow>
void launch_forward(cudaStream_t stream, const ForwardArgs& args) {
  const int num_vecs = static_cast<int>(args.C / Vec<T>::kSize);
  const int threads = kWarpPerRow ? kWarpRowThreads
                                  : static_cast<int>(ceil_div(ceil_div(num_vecs, kVecs), 32) * 32);
  const unsigned blocks = grid_size(kWarpPerRow ? ceil_div(args.N, threads / 32) : args.N);
  if (args.branch != nullptr) {
    layernorm_forward_kernel<T, kVecs, kWarpPerRow, true><<<blocks, threads, 0, stream>>>(args);
  } else {
    layernorm_forward_kernel<T, kVecs, kWarpPerRow, false><<<blocks, threads, 0, stream>>>(args);
  }
}

template <typename T>
void choose_forward(cudaStream_t stream, const ForwardArgs& args) {
  const int64_t num_vecs = args.C / Vec<T>::kSize;
  if (num_vecs <= 64) return launch_forward<T, 2, true>(stream, args);
  if (num_vecs <= 96) return launch_forward<T, 3, true>(stream, args);
  if (num_vecs <= 128) return launch_forward<T, 4, true>(stream, args);
  if (num_vecs <= 256) return launch_forward<T, 8, true>(stream, args);
  if (num_vecs <= 2048) return launch_forward<T, 2, false>(stream, args);
  if (num_vecs <= 8192) return launch_forward<T, 8, false>(stream, args);
  throw std::invalid_argument("LayerNorm on CUDA: a row of " + std::to_string(args.C) +
                              " elements is longer than 128 KiB");
}

struct BackwardArgs {
  void *dresidual, *dbranch;
  float* partials;  // (grid, 2, C): dweight and dbias of each block
  const void *dnormed, *dresidual_in, *inp;
  const float *mean, *rstd;
  const void* weight;
  int64_t N, C;
  DropoutMask mask;
};

// Sums over the threads of a row. `turn` alternates between two places, so that one barrier a row
// suffices: no thread writes where others still read.
template <bool kWarpPerRow>
__device__ inline void row_sums(float (&values)[2], int turn) {
  values[0] = warp_sum(values[0]);
  values[1] = warp_sum(values[1]);
  if constexpr (kWarpPerRow) return;
  __shared__ float shared[2][2][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
  if (lane == 0) {
    shared[turn][0][warp] = values[0];
    shared[turn][1][warp] = values[1];
  }
  __syncthreads();
  values[0] = warp_sum(lane < num_warps ? shared[turn][0][lane] : 0.0F);
  values[1] = warp_sum(lane < num_warps ? shared[turn][1][lane] : 0.0F);
}

// The number of rows in shared memory that are fetched ahead of the current one. The sums for
// dweight and dbias fill the registers, so too few threads fit to hide the memory's latency
// otherwise. Long rows need none (0) and come straight from memory.
WEFT_HOST_DEVICE constexpr int num_stages(bool warp_per_row, int max_threads) {
  return max_threads > 256 ? 0 : warp_per_row ? 2 : 4;
}

// A thread's vectors of dnormed, inp and dresidual_in. Each thread fetches the ones that it reads,
// so no barrier is needed.
template <typename T, int kVecs, int kStages>
class RowInputs {
 public:
  __device__ RowInputs(const BackwardArgs& args, int lane, int group)
      : args_(args), lane_(lane), group_(group), num_vecs_(args.C / Vec<T>::kSize) {}

  __device__ void fetch(int64_t row, int stage) {
    if constexpr (kStages > 0) {
      if (row < args_.N) {
#pragma unroll
        for (int i = 0; i < kVecs; ++i) {
          const int vec = lane_ + i * group_;
          if (vec >= num_vecs_) continue;
          const int64_t offset = row * args_.C + vec * Vec<T>::kSize;
          async_load_vec(slot(stage, 0, i), static_cast<const T*>(args_.dnormed) + offset);
          async_load_vec(slot(stage, 1, i), static_cast<const T*>(args_.inp) + offset);
          if (args_.dresidual_in != nullptr)
            async_load_vec(slot(stage, 2, i), static_cast<const T*>(args_.dresidual_in) + offset);
        }
      }
      async_commit();
    }
  }
  // Waits until the oldest of kStages rows has arrived.
  __device__ void wait() {
    if constexpr (kStages > 0) async_wait<kStages - 1>();
  }
  __device__ Vec<T> dnormed(int64_t row, int stage, int i) { return get(row, stage, 0, i); }
  __device__ Vec<T> inp(int64_t row, int stage, int i) { return get(row, stage, 1, i); }
  __device__ Vec<T> dresidual_in(int64_t row, int stage, int i) { return get(row, stage, 2, i); }

 private:
  __device__ static Vec<T>* slot(int stage, int tensor, int i) {
    extern __shared__ uint4 ring[];
    return reinterpret_cast<Vec<T>*>(ring) + ((stage * 3 + tensor) * kVecs + i) * blockDim.x +
           threadIdx.x;
  }
  __device__ Vec<T> get(int64_t row, int stage, int tensor, int i) {
    if constexpr (kStages > 0) return *slot(stage, tensor, i);
    const void* data = tensor == 0 ? args_.dnormed : tensor == 1 ? args_.inp : args_.dresidual_in;
    return load_vec(static_cast<const T*>(data) + row * args_.C +
                    (lane_ + i * group_) * Vec<T>::kSize);
  }

  const BackwardArgs& args_;
  int lane_, group_, num_vecs_;
};

// With y = dnormed * weight and n = (inp - mean) * rstd:
//   gradient = rstd * (y - mean(y) - n * mean(y * n))
template <typename T, int kVecs, bool kWarpPerRow, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads, kMaxThreads <= 256 ? 2 : 1)
    layernorm_backward_kernel(const __grid_constant__ BackwardArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  const int lane = kWarpPerRow ? threadIdx.x % 32 : threadIdx.x;
  const int group = kWarpPerRow ? 32 : blockDim.x;
  const int rows_per_block = kWarpPerRow ? blockDim.x / 32 : 1;
  const int row_in_block = kWarpPerRow ? threadIdx.x / 32 : 0;
  const int num_vecs = static_cast<int>(args.C / kSize);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * rows_per_block;
  const float inv_C = 1.0F / args.C;

  Vec<T> weights[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec < num_vecs) weights[i] = load_vec(static_cast<const T*>(args.weight) + vec * kSize);
  }
  float dweight[kVecs][kSize] = {}, dbias[kVecs][kSize] = {};
  constexpr int kStages = num_stages(kWarpPerRow, kMaxThreads);
  constexpr int kAhead = kStages > 0 ? kStages - 1 : 0;
  RowInputs<T, kVecs, kStages> inputs(args, lane, group);
  int64_t row = static_cast<int64_t>(blockIdx.x) * rows_per_block + row_in_block;
  for (int i = 0; i < kAhead; ++i) inputs.fetch(row + i * stride, i);
  int stage = 0;
  for (int turn = 0; row < args.N; row += stride, turn ^= 1) {
    // The new row goes into the slot of the row before this one.
    inputs.fetch(row + kAhead * stride, stage == 0 ? kAhead : stage - 1);
    const float mean = args.mean[row], rstd = args.rstd[row];
    inputs.wait();
    float sums[2] = {};  // sums of y and of y * n
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (lane + i * group >= num_vecs) continue;
      float gradient[kSize], x[kSize], weight[kSize];
      unpack(inputs.dnormed(row, stage, i), gradient);
      unpack(inputs.inp(row, stage, i), x);
      unpack(weights[i], weight);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float n = (x[j] - mean) * rstd, y = gradient[j] * weight[j];
        dweight[i][j] += gradient[j] * n;
        dbias[i][j] += gradient[j];
        sums[0] += y;
        sums[1] += y * n;
      }
    }
    row_sums<kWarpPerRow>(sums, turn);
    const float mean_y = sums[0] * inv_C, mean_yn = sums[1] * inv_C;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int vec = lane + i * group;
      if (vec >= num_vecs) continue;
      float gradient[kSize], x[kSize], weight[kSize], added[kSize] = {};
      unpack(inputs.dnormed(row, stage, i), gradient);
      unpack(inputs.inp(row, stage, i), x);
      unpack(weights[i], weight);
      if (args.dresidual_in != nullptr) unpack(inputs.dresidual_in(row, stage, i), added);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float n = (x[j] - mean) * rstd;
        gradient[j] = rstd * (gradient[j] * weight[j] - mean_y - n * mean_yn) + added[j];
      }
      const int64_t offset = row * args.C + vec * kSize;
      store_vec(static_cast<T*>(args.dresidual) + offset, pack(gradient));
      if (args.dbranch != nullptr) {
        if (args.mask.threshold != 0) apply_mask(args.mask, offset, gradient);
        store_vec(static_cast<T*>(args.dbranch) + offset, pack(gradient));
      }
    }
    stage = stage == kAhead ? 0 : stage + 1;
  }

  float* partials = args.partials + blockIdx.x * 2 * args.C;
  if constexpr (kWarpPerRow) {
    // The warps add to the block's sums one after the other, always in the same order.
    __shared__ float shared[2][kVecs * 32 * kSize];
    for (int turn = 0; turn < rows_per_block; ++turn) {
      if (turn == row_in_block) {
#pragma unroll
        for (int i = 0; i < kVecs; ++i) {
#pragma unroll
          for (int j = 0; j < kSize; ++j) {
            const int column = (lane + i * group) * kSize + j;
            shared[0][column] = dweight[i][j] + (turn == 0 ? 0.0F : shared[0][column]);
            shared[1][column] = dbias[i][j] + (turn == 0 ? 0.0F : shared[1][column]);
          }
        }
      }
      __syncthreads();
    }
    for (int column = threadIdx.x; column < args.C; column += blockDim.x) {
      partials[column] = shared[0][column];
      partials[args.C + column] = shared[1][column];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int vec = lane + i * group;
      if (vec >= num_vecs) continue;
#pragma unroll
      for (int j = 0; j < kSize; j += 4) {
        float* target = partials + vec * kSize + j;
        store_vec(target, Vec<float>{{dweight[i][j], dweight[i][j + 1], dweight[i][j + 2],
                                      dweight[i][j + 3]}});
        store_vec(target + args.C,
                  Vec<float>{{dbias[i][j], dbias[i][j + 1], dbias[i][j + 2], dbias[i][j + 3]}});
      }
    }
  }
}

struct BackwardPlan {
  int threads, blocks;
};

// Calls function(kVecs, kWarpPerRow, kMaxThreads) with the std::integral_constants of the kernel
// for rows of `num_vecs` vectors.
template <typename Function>
void choose_backward(int64_t num_vecs, Function function) {
  const auto call = [&](auto vecs, auto warp_per_row, auto max_threads) {
    function(vecs, warp_per_row, max_threads);
  };
  using Warp = std::true_type;
  using Block = std::false_type;
  using std::integral_constant;
  if (num_vecs <= 32) {
    call(integral_constant<int, 1>{}, Warp{}, integral_constant<int, 256>{});
  } else if (num_vecs <= 96) {
    call(integral_constant<int, 3>{}, Warp{}, integral_constant<int, 256>{});
  } else if (num_vecs <= 512) {
    call(integral_constant<int, 2>{}, Block{}, integral_constant<int, 256>{});
  } else if (num_vecs <= 2048) {
    call(integral_constant<int, 2>{}, Block{}, integral_constant<int, 1024>{});
  } else if (num_vecs <= 8192) {
    call(integral_constant<int, 8>{}, Block{}, integral_constant<int, 1024>{});
  } else {
    throw std::invalid_argument("LayerNorm on CUDA: a row is longer than 128 KiB");
  }
}

BackwardPlan plan_backward(int64_t N, int64_t num_vecs, int vecs, bool warp_per_row) {
  const int num_sms = num_multiprocessors();
  if (warp_per_row)
    return {kWarpRowThreads, static_cast<int>(std::min<int64_t>(ceil_div(N, 8), 2 * num_sms))};
  const int threads = static_cast<int>(ceil_div(ceil_div(num_vecs, vecs), 32) * 32);
  const int blocks_per_sm = std::max(1, 512 / threads);
  return {threads, static_cast<int>(std::min<int64_t>(N, blocks_per_sm * num_sms))};
}

}  // namespace

void layernorm_forward(cudaStream_t stream, void* normed, void* residual_out, float* mean,
                       float* rstd, const void* inp, const void* branch, const void* weight,
                       const void* bias, DType x, int64_t N, int64_t C, float epsilon,
                       const Dropout& dropout) {
  const ForwardArgs args{normed, residual_out, mean, rstd, inp,     branch,
                         weight, bias,         N,    C,    epsilon, make_mask(dropout)};
  dispatch(x, [&](auto type) { choose_forward<decltype(type)>(stream, args); });
  CUDA_CHECK(cudaGetLastError());
}

int64_t layernorm_backward_scratch_bytes(int64_t N, int64_t C, DType x) {
  int64_t bytes = 0;
  const int64_t num_vecs = C * size_bytes(x) / 16;
  choose_backward(num_vecs, [&](auto vecs, auto warp_per_row, auto) {
    bytes = plan_backward(N, num_vecs, vecs(), warp_per_row()).blocks * 2 * C *
            static_cast<int64_t>(sizeof(float));
  });
  return bytes;
}

void layernorm_backward(cudaStream_t stream, void* dresidual, void* dbranch, float* dweight,
                        float* dbias, const void* dnormed, const void* dresidual_in,
                        const void* inp, const float* mean, const float* rstd, const void* weight,
                        DType x, int64_t N, int64_t C, const Dropout& dropout, bool accumulate,
                        void* scratch) {
  auto* partials = static_cast<float*>(scratch);
  const BackwardArgs args{dresidual, dbranch, partials, dnormed, dresidual_in,      inp, mean,
                          rstd,      weight,  N,        C,       make_mask(dropout)};
  int blocks = 0;
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    const int64_t num_vecs = C / Vec<T>::kSize;
    choose_backward(num_vecs, [&](auto vecs, auto warp_per_row, auto max_threads) {
      const BackwardPlan plan = plan_backward(N, num_vecs, vecs(), warp_per_row());
      blocks = plan.blocks;
      const auto kernel = layernorm_backward_kernel<T, vecs(), warp_per_row(), max_threads()>;
      const int ring_bytes =
          num_stages(warp_per_row(), max_threads()) * 3 * vecs() * plan.threads * 16;
      CUDA_CHECK(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ring_bytes));
      kernel<<<plan.blocks, plan.threads, static_cast<size_t>(ring_bytes), stream>>>(args);
    });
  });
  CUDA_CHECK(cudaGetLastError());
  sum_partials(stream, dweight, dbias, partials, blocks, 2 * C, C, accumulate);
}

}  // namespace weft::cuda
