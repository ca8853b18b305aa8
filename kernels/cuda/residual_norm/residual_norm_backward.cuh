// The kernels of the residual norm's backward pass, one for each layout. A row belongs to a group
// of warps. A thread has the same few columns of all rows of its group, and holds their sums over
// those rows in registers.
#pragma once

#include "kernels/cuda/device/shared_memory.h"
#include "kernels/cuda/residual_norm/residual_norm_backward_inputs.cuh"

namespace weft::cuda {

// Mean and 1 / standard deviation of a row; those of a row after the last one are 0.
struct RowStatistics {
  float mean, rstd;
  __device__ RowStatistics(const BackwardArgs& args, int row, bool rms)
      : mean(rms || row >= args.N ? 0.0F : args.mean[row]),
        rstd(row >= args.N ? 0.0F : args.rstd[row]) {}
};

// Sums one or two values over the lanes of a warp. Of two values, the lower half of the lanes gets
// the first one's sum, and the upper half the second one's.
template <int kCount>
__device__ inline float warp_sums(const float (&values)[kCount]) {
  static_assert(kCount <= 2);
  float sum = values[0];
  if constexpr (kCount == 2) {
    const bool upper = threadIdx.x & 16;
    const float sent = upper ? values[0] : values[1];
    sum = (upper ? values[1] : values[0]) + __shfl_xor_sync(0xffffffffu, sent, 16);
  }
#pragma unroll
  for (int width = 16 / kCount; width > 0; width /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, width);
  return sum;
}

// Sums one or two values over the threads of a group; every thread gets the sums. `shared` has a
// place for each warp of the group. One barrier suffices if calls alternate between two such
// arrays, because no thread writes then where others still read.
template <int kCount>
__device__ inline void group_sum(float (&values)[kCount], float (*shared)[kCount], int barrier,
                                 int group_threads, int thread) {
  constexpr int kLanes = 32 / kCount;  // So many lanes have the same value.
  const int lane = thread % 32, warp = thread / 32, num_warps = group_threads / 32;
  const float of_warp = warp_sums(values);
  if (lane % kLanes == 0) shared[warp][lane / kLanes] = of_warp;
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(group_threads) : "memory");
  float total = 0.0F;  // the sum of value lane % kCount
  for (int w = lane / kCount; w < num_warps; w += kLanes) total += shared[w][lane % kCount];
#pragma unroll
  for (int step = kCount; step < 32; step *= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = __shfl_sync(0xffffffffu, total, i);
}

// Adds the columns' sums of the other groups of a block to those of its last group, always in the
// same order. `shared` has room for the sums of all threads.
template <int kSums, int kVecs, int kSize>
__device__ inline void add_groups(float (&sums)[kSums][kVecs][kSize], float* shared, int group,
                                  int num_groups, int group_threads, int thread) {
  const int last = num_groups - 1;
  if (group < last) {
    float* place = shared + group * group_threads + thread;
#pragma unroll
    for (int n = 0; n < kSums * kVecs * kSize; ++n)
      place[n * last * group_threads] = sums[n / kSize / kVecs][n / kSize % kVecs][n % kSize];
  }
  __syncthreads();
  if (group < last) return;
#pragma unroll
  for (int n = 0; n < kSums * kVecs * kSize; ++n) {
    const float* place = shared + n * last * group_threads + thread;
    float total = *place;
    for (int other = 1; other < last; ++other) total += place[other * group_threads];
    sums[n / kSize / kVecs][n / kSize % kVecs][n % kSize] += total;
  }
}

template <int kSums, int kVecs, int kSize, typename Inputs>
__device__ inline void store_column_sums(const float (&sums)[kSums][kVecs][kSize],
                                         const Inputs& inputs, float* partials, int C) {
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (!inputs.has(i)) continue;
      const float(&own)[kSize] = sums[k][i];
#pragma unroll
      for (int j = 0; j < kSize; j += 4)
        store_vec(partials + k * C + inputs.column(i) + j,
                  Vec<float>{{own[j], own[j + 1], own[j + 2], own[j + 3]}});
    }
  }
}

// With y = dnormed * (weight + weight_offset), d = inp - mean and n = d * rstd:
//   gradient = rstd * (y - mean(y) - n * mean(y * n))
// An RMSNorm (kRms) has 0 for mean and mean(y).
template <typename R, typename X, typename Layout, bool kRms, bool kBranchBias>
__global__ void __launch_bounds__(Layout::kMaxThreads, Layout::kMinBlocks)
    residual_norm_backward_kernel(const __grid_constant__ BackwardArgs args, int group_threads,
                                  int num_groups) {
  if constexpr (Layout::kSlots == 0) num_groups = 1;
  using Inputs = RowInputs<R, X, Layout>;
  constexpr int kSize = Inputs::kSize, kVecs = Layout::kVecs;
  constexpr int kSums = num_sums(kRms, kBranchBias);
  constexpr int kValues = kRms ? 1 : 2;  // sums of y * d, and of y
  __shared__ float of_warps[2][Layout::kMaxThreads / 32][kValues];
  const int group = num_groups == 1 ? 0 : threadIdx.x / group_threads;
  const int thread = threadIdx.x - group * group_threads;
  const int first_warp = group * (group_threads / 32);
  const int stride = gridDim.x * num_groups;
  const float inv_C = 1.0F / args.C;

  Inputs inputs(args, thread, group_threads);
  VecBeside<R, X> weights[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) weights[i] = inputs.weight(i);
  float column_sums[kSums][kVecs][kSize] = {};  // dweight, dbias, dbranch_bias

  int row = blockIdx.x * num_groups + group;
  for (int i = 0; i < Inputs::kAhead; ++i) inputs.fetch(row + i * stride, i);
  RowStatistics next(args, row, kRms);
  int slot = 0;
  for (int turn = 0; row < args.N; row += stride, turn ^= 1) {
    // The new row goes into the slot of the row before this one.
    inputs.fetch(row + Inputs::kAhead * stride, slot == 0 ? Inputs::kAhead : slot - 1);
    const RowStatistics current = next;
    next = RowStatistics(args, row + stride, kRms);
    inputs.wait();
    float sums[kValues] = {};
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (Layout::kSlots == 0 && !inputs.has(i)) continue;
      float gradient[kSize], x[kSize], weight[kSize];
      unpack(inputs.dnormed(row, slot, i), gradient);
      unpack(inputs.inp(row, slot, i), x);
      unpack(weights[i], weight);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float d = x[j] - current.mean, y = gradient[j] * (weight[j] + args.weight_offset);
        column_sums[0][i][j] += gradient[j] * (d * current.rstd);
        sums[0] += y * d;
        if constexpr (!kRms) {
          column_sums[1][i][j] += gradient[j];
          sums[1] += y;
        }
      }
    }
    group_sum(sums, &of_warps[turn][first_warp], 1 + group, group_threads, thread);
    const float factor = sums[0] * inv_C * current.rstd * current.rstd;  // rstd * mean(y * n)
    float mean_y = 0.0F;
    if constexpr (!kRms) mean_y = sums[1] * inv_C;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (!inputs.has(i)) continue;
      float gradient[kSize], x[kSize], weight[kSize], added[kSize] = {};
      unpack(inputs.dnormed(row, slot, i), gradient);
      unpack(inputs.inp(row, slot, i), x);
      unpack(weights[i], weight);
      if (args.dresidual_in != nullptr) unpack(inputs.dresidual_in(row, slot, i), added);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float d = x[j] - current.mean;
        gradient[j] =
            current.rstd * (gradient[j] * (weight[j] + args.weight_offset) - mean_y - d * factor) +
            added[j];
      }
      const int64_t offset = static_cast<int64_t>(row) * args.C + inputs.column(i);
      const Vec<R> along_stream = pack<R>(gradient);
      store_vec(static_cast<R*>(args.dresidual) + offset, along_stream);
      VecBeside<R, X> of_branch = {};
      // Without dbranch they are the same.
      if constexpr (std::is_same_v<R, X>) of_branch = along_stream;
      if (args.dbranch != nullptr) {
        if (args.mask.threshold != 0) apply_mask(args.mask, offset, gradient);
        of_branch = pack<X>(gradient);
        store_vec(static_cast<X*>(args.dbranch) + offset, of_branch);
      }
      if constexpr (kBranchBias) {
        unpack(of_branch, gradient);
#pragma unroll
        for (int j = 0; j < kSize; ++j) column_sums[kSums - 1][i][j] += gradient[j];
      }
    }
    slot = slot == Inputs::kAhead ? 0 : slot + 1;
  }

  if constexpr (Layout::kSlots > 0) {
    async_wait<0>();
    if (num_groups > 1) {
      extern __shared__ uint4 ring[];  // It becomes the place of sums.
      static_assert(Inputs::kBytesPerThread >= static_cast<int>(sizeof column_sums));
      __syncthreads();
      add_groups(column_sums, reinterpret_cast<float*>(ring), group, num_groups, group_threads,
                 thread);
      if (group < num_groups - 1) return;
    }
  }
  store_column_sums(column_sums, inputs,
                    args.partials + static_cast<int64_t>(blockIdx.x) * kSums * args.C, args.C);
}

template <typename R, typename X, bool kRms, bool kBranchBias>
int launch_backward(cudaStream_t stream, const BackwardArgs& args) {
  const int64_t num_vecs = args.C / Vec<R>::kSize;
  int blocks = 0;
  choose_layout(num_vecs, LayoutsOf<sizeof(R)>{}, [&](auto layout) {
    using Layout = decltype(layout);
    constexpr int kBytesPerThread = RowInputs<R, X, Layout>::kBytesPerThread;
    static_assert(kBytesPerThread * Layout::kMaxThreads <= 96 * 1024);
    const auto kernel = residual_norm_backward_kernel<R, X, Layout, kRms, kBranchBias>;
    const BackwardPlan plan = plan_backward(layout, args.N, num_vecs, num_multiprocessors());
    const int threads = plan.num_groups * plan.group_threads;
    const int num_bytes = kBytesPerThread * threads;
    allow_shared_memory(reinterpret_cast<const void*>(kernel), num_bytes,
                        "residual_norm_backward_kernel");
    kernel<<<plan.blocks, threads, static_cast<size_t>(num_bytes), stream>>>(
        args, plan.group_threads, plan.num_groups);
    blocks = plan.blocks;
  });
  CUDA_CHECK(cudaGetLastError());
  return blocks;
}

template <typename R, typename X>
int launch_backward(cudaStream_t stream, const BackwardArgs& args, bool rms, bool branch_bias) {
  const auto launch =
      rms ? branch_bias ? launch_backward<R, X, true, true> : launch_backward<R, X, true, false>
      : branch_bias ? launch_backward<R, X, false, true>
                    : launch_backward<R, X, false, false>;
  return launch(stream, args);
}

}  // namespace weft::cuda
