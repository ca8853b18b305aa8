// Backward of the residual norm. It reads its inputs once, as forward does, and also sums dweight,
// dbias and the gradient of the branch's bias over the rows of a block in registers; a second kernel
// adds the blocks' sums in order. A row of up to 96 16-byte vectors belongs to a warp.
#include <algorithm>

#include "kernels/check_shapes.h"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/memory_bound/residual_norm.cuh"

namespace weft::cuda {
namespace {

struct BackwardArgs {
  void *dresidual, *dbranch;
  float* partials;  // (grid, 2 or 3, C): dweight, dbias and dbranch_bias of each block
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

// The number of rows in shared memory that are fetched ahead of the current one. The sums fill the
// registers, so too few threads fit to hide the memory's latency otherwise. With a third sum half
// as many warps fit, which fetch further ahead. Long rows need none (0) and come straight from
// memory.
WEFT_HOST_DEVICE constexpr int num_stages(bool warp_per_row, int max_threads, bool branch_bias) {
  return max_threads > 256 ? 0 : warp_per_row && !branch_bias ? 2 : 4;
}

// Blocks of a warp per row that share a multiprocessor: their registers hold two or three sums.
WEFT_HOST_DEVICE constexpr int blocks_per_sm(bool warp_per_row, int max_threads, bool branch_bias) {
  return max_threads > 256 || (warp_per_row && branch_bias) ? 1 : 2;
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
template <typename T, int kVecs, bool kWarpPerRow, int kMaxThreads, bool kBranchBias>
__global__ void __launch_bounds__(kMaxThreads, blocks_per_sm(kWarpPerRow, kMaxThreads, kBranchBias))
    residual_norm_backward_kernel(const __grid_constant__ BackwardArgs args) {
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
  constexpr int kSums = kBranchBias ? 3 : 2;
  float column_sums[kSums][kVecs][kSize] = {};  // dweight, dbias, dbranch_bias
  constexpr int kStages = num_stages(kWarpPerRow, kMaxThreads, kBranchBias);
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
        column_sums[0][i][j] += gradient[j] * n;
        column_sums[1][i][j] += gradient[j];
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
      Vec<T> stored = pack(gradient);
      store_vec(static_cast<T*>(args.dresidual) + offset, stored);
      if (args.dbranch != nullptr) {
        if (args.mask.threshold != 0) apply_mask(args.mask, offset, gradient);
        stored = pack(gradient);
        store_vec(static_cast<T*>(args.dbranch) + offset, stored);
      }
      if constexpr (kBranchBias) {
        unpack(stored, gradient);
#pragma unroll
        for (int j = 0; j < kSize; ++j) column_sums[2][i][j] += gradient[j];
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
  } else if (num_vecs <= 1024) {
    call(integral_constant<int, 2>{}, Block{}, integral_constant<int, 512>{});
  } else if (num_vecs <= 2048) {
    call(integral_constant<int, 2>{}, Block{}, integral_constant<int, 1024>{});
  } else if (num_vecs <= 8192) {
    call(integral_constant<int, 8>{}, Block{}, integral_constant<int, 1024>{});
  } else {
    throw std::invalid_argument("LayerNorm on CUDA: a row is longer than 128 KiB");
  }
}

BackwardPlan plan_backward(int64_t N, int64_t num_vecs, int vecs, bool warp_per_row,
                           bool branch_bias) {
  const int num_sms = num_multiprocessors();
  if (warp_per_row) {
    const int blocks = blocks_per_sm(true, kWarpRowThreads, branch_bias) * num_sms;
    return {kWarpRowThreads, static_cast<int>(std::min<int64_t>(ceil_div(N, 8), blocks))};
  }
  const int threads = static_cast<int>(ceil_div(ceil_div(num_vecs, vecs), 32) * 32);
  const int blocks = std::max(1, 512 / threads) * num_sms;
  return {threads, static_cast<int>(std::min<int64_t>(N, blocks))};
}

// Launches the backward kernel, which leaves (blocks, 2 or 3, C) sums in the scratch, and returns
// the number of blocks.
template <typename T, bool kBranchBias>
int launch_backward(cudaStream_t stream, const BackwardArgs& args) {
  const int64_t num_vecs = args.C / Vec<T>::kSize;
  int blocks = 0;
  choose_backward(num_vecs, [&](auto vecs, auto warp_per_row, auto max_threads) {
    const BackwardPlan plan = plan_backward(args.N, num_vecs, vecs(), warp_per_row(), kBranchBias);
    blocks = plan.blocks;
    const auto kernel =
        residual_norm_backward_kernel<T, vecs(), warp_per_row(), max_threads(), kBranchBias>;
    const int ring_bytes =
        num_stages(warp_per_row(), max_threads(), kBranchBias) * 3 * vecs() * plan.threads * 16;
    allow_shared_memory(reinterpret_cast<const void*>(kernel), ring_bytes,
                        "residual_norm_backward_kernel");
    kernel<<<plan.blocks, plan.threads, static_cast<size_t>(ring_bytes), stream>>>(args);
  });
  CUDA_CHECK(cudaGetLastError());
  return blocks;
}

// Backward through the norm; with `sums_branch` also the gradient of a branch's bias of one row.
void backward_of_norm(cudaStream_t stream, const ResidualNormBackward& args, bool sums_branch,
                      void* scratch) {
  const int64_t N = num_rows(args.dresidual), C = num_columns(args.dresidual);
  auto* partials = static_cast<float*>(scratch);
  const BackwardArgs device_args{args.dresidual.data(),
                                 args.dbranch.data(),
                                 partials,
                                 args.dnormed.data(),
                                 args.dresidual_in.data(),
                                 args.residual.data(),
                                 args.mean.as<const float>(),
                                 args.rstd.as<const float>(),
                                 args.weight.data(),
                                 N,
                                 C,
                                 make_mask(args.dropout)};
  int blocks = 0;
  dispatch(args.dresidual.dtype(), [&](auto type) {
    using T = decltype(type);
    blocks = sums_branch ? launch_backward<T, true>(stream, device_args)
                         : launch_backward<T, false>(stream, device_args);
  });
  sum_partials(stream,
               {args.dweight.as<float>(), args.dbias.as<float>(),
                sums_branch ? args.dbranch_bias.as<float>() : nullptr},
               partials, blocks, (sums_branch ? 3 : 2) * C, C, args.accumulate);
}

}  // namespace

int64_t residual_norm_backward_scratch_bytes(int64_t N, int64_t C, DType x) {
  int64_t sum_rows = 0;
  const int64_t num_vecs = C * size_bytes(x) / 16;
  choose_backward(num_vecs, [&](auto vecs, auto warp_per_row, auto) {
    sum_rows = std::max(2 * plan_backward(N, num_vecs, vecs(), warp_per_row(), false).blocks,
                        3 * plan_backward(N, num_vecs, vecs(), warp_per_row(), true).blocks);
  });
  return std::max(sum_rows * C * static_cast<int64_t>(sizeof(float)),
                  column_sums_scratch_bytes(N, C));
}

void residual_norm_backward(cudaStream_t stream, const ResidualNormBackward& args, void* scratch) {
  const bool one_bias_row = args.dbranch_bias && args.bias_period == 1;
  const Tensor& dbranch = args.dbranch ? args.dbranch : args.dresidual;
  if (args.weight) {
    backward_of_norm(stream, args, one_bias_row, scratch);
  } else {
    residual_sum_backward(stream, args);
    if (one_bias_row) {
      column_sums(stream, args.dbranch_bias.as<float>(), dbranch.data(), dbranch.dtype(),
                  num_rows(dbranch), num_columns(dbranch), args.accumulate, scratch);
    }
  }
  if (args.dbranch_bias && !one_bias_row) periodic_bias_backward(stream, args, dbranch);
}

}  // namespace weft::cuda
