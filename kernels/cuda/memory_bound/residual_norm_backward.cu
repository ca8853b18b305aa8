// Backward of the residual norm. It reads its inputs once, as forward does, and also sums dweight,
// dbias and the gradient of the branch's bias over the rows of a block in registers; a second
// kernel adds the blocks' sums in order. A row of up to 96 16-byte vectors of the stream belongs to a
// warp.
#include <algorithm>

#include "kernels/check_shapes.h"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/memory_bound/residual_norm_backward.cuh"
#include "kernels/cuda/memory_bound/shared_memory.h"

namespace weft::cuda {
namespace {

// The number of rows in shared memory that are fetched ahead, the current one included. The sums
// fill the registers, so too few threads fit to hide the memory's latency otherwise. With a third
// sum half as many warps fit, which fetch further ahead. Long rows need none (0) and come straight
// from memory.
constexpr int num_stages(bool warp_per_row, int max_threads, int num_sums) {
  return max_threads > 256 ? 0 : warp_per_row && num_sums < 3 ? 2 : 4;
}
// Where a block has too little shared memory for them: GPUs of 99 KiB instead of 160 or more.
constexpr int kFewStages = 2;

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
    throw std::invalid_argument("the norm on CUDA: a row is longer than 128 KiB");
  }
}

BackwardPlan plan_backward(int64_t N, int64_t num_vecs, int vecs, bool warp_per_row, int num_sums) {
  const int num_sms = num_multiprocessors();
  if (warp_per_row) {
    const int blocks = blocks_per_sm(true, kWarpRowThreads, num_sums) * num_sms;
    return {kWarpRowThreads, static_cast<int>(std::min<int64_t>(ceil_div(N, 8), blocks))};
  }
  const int threads = static_cast<int>(ceil_div(ceil_div(num_vecs, vecs), 32) * 32);
  const int blocks = std::max(1, 512 / threads) * num_sms;
  return {threads, static_cast<int>(std::min<int64_t>(N, blocks))};
}

// Launches the backward kernel, which leaves (blocks, kSums, C) sums in the scratch, and returns
// the number of blocks.
template <typename R, typename X, bool kRms, bool kBranchBias>
int launch_backward(cudaStream_t stream, const BackwardArgs& args) {
  constexpr int kSums = num_sums(kRms, kBranchBias);
  const int64_t num_vecs = args.C / Vec<R>::kSize;
  int blocks = 0;
  choose_backward(num_vecs, [&](auto vecs, auto warp_per_row, auto max_threads) {
    const BackwardPlan plan = plan_backward(args.N, num_vecs, vecs(), warp_per_row(), kSums);
    blocks = plan.blocks;
    const auto launch_if_it_fits = [&](auto stages) {
      const auto kernel = residual_norm_backward_kernel<R, X, vecs(), warp_per_row(), max_threads(),
                                                        kRms, kBranchBias, stages()>;
      const int ring_bytes = stages() * 3 * vecs() * plan.threads * 16;
      const void* function = reinterpret_cast<const void*>(kernel);
      if (stages() > kFewStages && !fits_shared_memory(function, ring_bytes)) return false;
      allow_shared_memory(function, ring_bytes, "residual_norm_backward_kernel");
      kernel<<<plan.blocks, plan.threads, static_cast<size_t>(ring_bytes), stream>>>(args);
      return true;
    };
    constexpr int kStages = num_stages(warp_per_row(), max_threads(), kSums);
    const bool launched = launch_if_it_fits(std::integral_constant<int, kStages>{});
    if constexpr (kStages > kFewStages) {
      if (!launched) launch_if_it_fits(std::integral_constant<int, kFewStages>{});
    }
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
  const bool is_rms = args.mean.empty();
  int blocks = 0;
  dispatch_stream(args.dresidual.dtype(), args.weight.dtype(), [&](auto of_stream, auto of_model) {
    using R = decltype(of_stream);
    using X = decltype(of_model);
    if (is_rms) {
      blocks = sums_branch ? launch_backward<R, X, true, true>(stream, device_args)
                           : launch_backward<R, X, true, false>(stream, device_args);
    } else {
      blocks = sums_branch ? launch_backward<R, X, false, true>(stream, device_args)
                           : launch_backward<R, X, false, false>(stream, device_args);
    }
  });
  float* dbranch_bias = sums_branch ? args.dbranch_bias.as<float>() : nullptr;
  const SumTargets targets =
      is_rms ? SumTargets{args.dweight.as<float>(), dbranch_bias}
             : SumTargets{args.dweight.as<float>(), args.dbias.as<float>(), dbranch_bias};
  sum_partials(stream, targets, partials, blocks, num_sums(is_rms, sums_branch) * C, C,
               args.accumulate);
}

}  // namespace

int64_t residual_norm_backward_scratch_bytes(int64_t N, int64_t C, DType r) {
  int64_t sum_rows = 0;
  const int64_t num_vecs = C * size_bytes(r) / 16;
  choose_backward(num_vecs, [&](auto vecs, auto warp_per_row, auto) {
    for (const int sums : {1, 2, 3}) {
      const BackwardPlan plan = plan_backward(N, num_vecs, vecs(), warp_per_row(), sums);
      sum_rows = std::max<int64_t>(sum_rows, sums * plan.blocks);
    }
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
  if (!args.dbranch_bias || one_bias_row) return;
  if (args.document_bounds) {
    const Tensor& table = args.dbranch_bias;
    if (!args.accumulate) {
      CUDA_CHECK(cudaMemsetAsync(table.data(), 0, static_cast<size_t>(table.num_bytes()), stream));
    }
    document_positions_backward(stream, table.as<float>(), dbranch.data(),
                                args.document_bounds.as<const int32_t>(), dbranch.dtype(),
                                num_rows(dbranch), num_columns(dbranch), args.bias_period,
                                args.first_row, num_rows(table), scratch);
  } else {
    periodic_bias_backward(stream, args, dbranch);
  }
}

}  // namespace weft::cuda
