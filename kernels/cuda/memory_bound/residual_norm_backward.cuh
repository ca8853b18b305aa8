// The kernel of the residual norm's backward pass.
#pragma once

#include "kernels/cuda/memory_bound/residual_norm.cuh"

namespace weft::cuda {

struct BackwardArgs {
  void *dresidual, *dbranch;
  float* partials;  // (grid, kSums, C): dweight, dbias and dbranch_bias of each block
  const void *dnormed, *dresidual_in, *inp;
  const float *mean, *rstd;
  const void* weight;
  int64_t N, C;
  DropoutMask mask;
};

// Sums over the threads of a row. `turn` alternates between two places, so that one barrier a row
// suffices: no thread writes where others still read.
template <bool kWarpPerRow, int kCount>
__device__ inline void row_sums(float (&values)[kCount], int turn) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
  if constexpr (kWarpPerRow) return;
  __shared__ float shared[2][kCount][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) shared[turn][i][warp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    values[i] = warp_sum(lane < num_warps ? shared[turn][i][lane] : 0.0F);
}

// Sums over rows: dweight, dbias unless the norm is an RMSNorm, and dbranch_bias.
WEFT_HOST_DEVICE constexpr int num_sums(bool rms, bool branch_bias) {
  return (rms ? 1 : 2) + (branch_bias ? 1 : 0);
}

// Blocks of a warp per row that share a multiprocessor: their registers hold one to three sums.
WEFT_HOST_DEVICE constexpr int blocks_per_sm(bool warp_per_row, int max_threads, int num_sums) {
  return max_threads > 256 || (warp_per_row && num_sums == 3) ? 1 : 2;
}

// A thread's vectors of dnormed, inp and dresidual_in. Each thread fetches the ones that it reads,
// so no barrier is needed. Each has a place of 16 bytes.
template <typename R, typename X, int kVecs, int kStages>
class RowInputs {
 public:
  __device__ RowInputs(const BackwardArgs& args, int lane, int group)
      : args_(args), lane_(lane), group_(group), num_vecs_(args.C / Vec<R>::kSize) {}

  __device__ void fetch(int64_t row, int stage) {
    if constexpr (kStages > 0) {
      if (row < args_.N) {
#pragma unroll
        for (int i = 0; i < kVecs; ++i) {
          const int vec = lane_ + i * group_;
          if (vec >= num_vecs_) continue;
          const int64_t offset = row * args_.C + vec * Vec<R>::kSize;
          async_load_vec(beside<X>(slot(stage, 0, i)),
                         static_cast<const X*>(args_.dnormed) + offset);
          async_load_vec(slot(stage, 1, i), static_cast<const R*>(args_.inp) + offset);
          if (args_.dresidual_in != nullptr)
            async_load_vec(slot(stage, 2, i), static_cast<const R*>(args_.dresidual_in) + offset);
        }
      }
      async_commit();
    }
  }
  // Waits until the oldest of kStages rows has arrived.
  __device__ void wait() {
    if constexpr (kStages > 0) async_wait<kStages - 1>();
  }
  __device__ VecBeside<R, X> dnormed(int64_t row, int stage, int i) {
    return get<X>(row, stage, 0, i);
  }
  __device__ Vec<R> inp(int64_t row, int stage, int i) { return get<R>(row, stage, 1, i); }
  __device__ Vec<R> dresidual_in(int64_t row, int stage, int i) { return get<R>(row, stage, 2, i); }

 private:
  __device__ static Vec<R>* slot(int stage, int tensor, int i) {
    extern __shared__ uint4 ring[];
    return reinterpret_cast<Vec<R>*>(ring) + ((stage * 3 + tensor) * kVecs + i) * blockDim.x +
           threadIdx.x;
  }
  // Returns the place of a vector of T in that of a vector of R.
  template <typename T>
  __device__ static VecBeside<R, T>* beside(Vec<R>* place) {
    return reinterpret_cast<VecBeside<R, T>*>(place);
  }
  template <typename T>
  __device__ VecBeside<R, T> get(int64_t row, int stage, int tensor, int i) {
    if constexpr (kStages > 0) return *beside<T>(slot(stage, tensor, i));
    const void* data = tensor == 0 ? args_.dnormed : tensor == 1 ? args_.inp : args_.dresidual_in;
    return load_beside<R>(static_cast<const T*>(data) + row * args_.C +
                          (lane_ + i * group_) * Vec<R>::kSize);
  }

  const BackwardArgs& args_;
  int lane_, group_, num_vecs_;
};

// With y = dnormed * weight and n = (inp - mean) * rstd:
//   gradient = rstd * (y - mean(y) - n * mean(y * n))
// Of an RMSNorm (kRms) mean and mean(y) are 0.
// kStages rows are fetched ahead into shared memory, the current one included; with 0 they come
// straight from memory.
template <typename R, typename X, int kVecs, bool kWarpPerRow, int kMaxThreads, bool kRms,
          bool kBranchBias, int kStages>
__global__ void __launch_bounds__(kMaxThreads, blocks_per_sm(kWarpPerRow, kMaxThreads,
                                                             num_sums(kRms, kBranchBias)))
    residual_norm_backward_kernel(const __grid_constant__ BackwardArgs args) {
  constexpr int kSize = Vec<R>::kSize;
  const int lane = kWarpPerRow ? threadIdx.x % 32 : threadIdx.x;
  const int group = kWarpPerRow ? 32 : blockDim.x;
  const int rows_per_block = kWarpPerRow ? blockDim.x / 32 : 1;
  const int row_in_block = kWarpPerRow ? threadIdx.x / 32 : 0;
  const int num_vecs = static_cast<int>(args.C / kSize);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * rows_per_block;
  const float inv_C = 1.0F / args.C;

  VecBeside<R, X> weights[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec < num_vecs)
      weights[i] = load_beside<R>(static_cast<const X*>(args.weight) + vec * kSize);
  }
  constexpr int kSums = num_sums(kRms, kBranchBias);
  float column_sums[kSums][kVecs][kSize] = {};  // dweight, dbias, dbranch_bias
  constexpr int kAhead = kStages > 0 ? kStages - 1 : 0;
  RowInputs<R, X, kVecs, kStages> inputs(args, lane, group);
  int64_t row = static_cast<int64_t>(blockIdx.x) * rows_per_block + row_in_block;
  for (int i = 0; i < kAhead; ++i) inputs.fetch(row + i * stride, i);
  int stage = 0;
  for (int turn = 0; row < args.N; row += stride, turn ^= 1) {
    // The new row goes into the slot of the row before this one.
    inputs.fetch(row + kAhead * stride, stage == 0 ? kAhead : stage - 1);
    const float mean = kRms ? 0.0F : args.mean[row], rstd = args.rstd[row];
    inputs.wait();
    float sums[kRms ? 1 : 2] = {};  // sums of y * n and of y
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
        column_sums[0][i][j] += gradient[j] * n;
        sums[0] += y * n;
        if constexpr (!kRms) {
          column_sums[1][i][j] += gradient[j];
          sums[1] += y;
        }
      }
    }
    row_sums<kWarpPerRow>(sums, turn);
    const float mean_yn = sums[0] * inv_C;
    float mean_y = 0.0F;
    if constexpr (!kRms) mean_y = sums[1] * inv_C;
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
      const Vec<R> along_stream = pack<R>(gradient);
      store_vec(static_cast<R*>(args.dresidual) + offset, along_stream);
      VecBeside<R, X> of_branch = {};
      // Without dbranch they are the same.
      if constexpr (std::is_same_v<R, X>) of_branch = along_stream;
      if (args.dbranch != nullptr) {
        if (args.mask.threshold != 0) apply_mask(args.mask, offset, gradient);
        of_branch = pack_beside<R, X>(gradient);
        store_vec(static_cast<X*>(args.dbranch) + offset, of_branch);
      }
      if constexpr (kBranchBias) {
        unpack(of_branch, gradient);
#pragma unroll
        for (int j = 0; j < kSize; ++j) column_sums[kSums - 1][i][j] += gradient[j];
      }
    }
    stage = stage == kAhead ? 0 : stage + 1;
  }

  float* partials = args.partials + blockIdx.x * kSums * args.C;
  if constexpr (kWarpPerRow) {
    // The warps add to the block's sums one after the other, always in the same order.
    __shared__ float shared[kSums][kVecs * 32 * kSize];
    for (int turn = 0; turn < rows_per_block; ++turn) {
      if (turn == row_in_block) {
#pragma unroll
        for (int k = 0; k < kSums; ++k) {
#pragma unroll
          for (int i = 0; i < kVecs; ++i) {
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
              float& sum = shared[k][(lane + i * group) * kSize + j];
              sum = column_sums[k][i][j] + (turn == 0 ? 0.0F : sum);
            }
          }
        }
      }
      __syncthreads();
    }
    for (int column = threadIdx.x; column < args.C; column += blockDim.x) {
#pragma unroll
      for (int k = 0; k < kSums; ++k) partials[k * args.C + column] = shared[k][column];
    }
  } else {
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        const int vec = lane + i * group;
        if (vec >= num_vecs) continue;
        const auto& sums = column_sums[k][i];
#pragma unroll
        for (int j = 0; j < kSize; j += 4) {
          store_vec(partials + k * args.C + vec * kSize + j,
                    Vec<float>{{sums[j], sums[j + 1], sums[j + 2], sums[j + 3]}});
        }
      }
    }
  }
}

}  // namespace weft::cuda
