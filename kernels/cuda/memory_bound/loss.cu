// Softmax cross-entropy and its gradient, in place.
//
// A block owns a row, reads it from memory once and writes it once. Between the two the row stays
// in shared memory, where the next row arrives meanwhile (two rows of GPT-2's 50,304 bf16 logits
// take 197 KiB of a Hopper multiprocessor's 227). Longer rows are read twice, the second time
// mostly from L2.
#include <algorithm>

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/shared_memory.h"
#include "kernels/cuda/memory_bound/loss.cuh"
#include "kernels/operations/loss.h"

namespace weft::cuda {
namespace {

struct LossArgs {
  float* losses;
  void* logits;
  const int32_t* targets;
  const float* loss_mask;
  int64_t N, Vp, vocabulary_size;
  float gradient_scale;
  bool gradient;
};

// A block processes row after row. With kAhead the next row arrives in shared memory while this one
// is processed; each thread fetches the vectors that it will read.
template <typename T, bool kAhead>
__global__ void __launch_bounds__(kLossThreads, 1) cross_entropy_kernel(LossArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  extern __shared__ uint4 ring[];
  const int num_vecs = static_cast<int>(args.Vp / kSize);
  const int vocabulary_size = static_cast<int>(args.vocabulary_size);
  auto* logits = static_cast<T*>(args.logits);
  const auto cached = [&](int turn) { return reinterpret_cast<Vec<T>*>(ring) + turn * num_vecs; };
  const auto fetch = [&](int64_t row, int turn) {
    if constexpr (kAhead) {
      if (row < args.N)
        for (int vec = threadIdx.x; vec < num_vecs; vec += kLossThreads)
          async_load_vec(cached(turn) + vec, logits + row * args.Vp + vec * kSize);
      async_commit();
    }
  };
  const auto load = [&](int64_t row, int turn, int vec) {
    Vec<T> values;
    if constexpr (kAhead) {
      values = cached(turn)[vec];
    } else {
      values = load_vec(logits + row * args.Vp + vec * kSize);
    }
    const int count = vocabulary_size - vec * kSize;
    if (count < kSize) leave_out_columns_from(count, values);
    return values;
  };

  fetch(blockIdx.x, 0);
  int turn = 0;
  for (int64_t row = blockIdx.x; row < args.N; row += gridDim.x, turn ^= 1) {
    fetch(row + gridDim.x, turn ^ 1);
    const int32_t target = args.targets[row];
    const bool in_row = target >= 0 && target < vocabulary_size;
    const float weight = args.loss_mask != nullptr ? args.loss_mask[row] : 1.0F;
    if constexpr (kAhead) async_wait<1>();
    LogSum<T> sum;
#pragma unroll 4
    for (int vec = threadIdx.x; vec < num_vecs; vec += kLossThreads) {
      sum.absorb(load(row, turn, vec));
    }
    // The thread that fetched the target's vector is the one that will overwrite it.
    __shared__ float target_logit[2];
    const bool owns_target = in_row && target / kSize % kLossThreads == threadIdx.x;
    if (owns_target) {
      const T* first = kAhead ? reinterpret_cast<const T*>(cached(turn)) : logits + row * args.Vp;
      target_logit[turn] = static_cast<float>(first[target]);
    }
    sum.join_block(turn);
    if (threadIdx.x == 0)
      args.losses[row] = in_row && weight != 0.0F
                             ? (sum.maximum - target_logit[turn] + logf(sum.total)) * weight
                             : 0.0F;
    if (!args.gradient) continue;

    const float scale = args.gradient_scale * weight;
    const float factor = in_row ? scale / sum.total : 0.0F;
    if (scale == 0.0F) {  // the gradient is exactly 0, whatever the logits are
      for (int vec = threadIdx.x; vec < num_vecs; vec += kLossThreads)
        store_vec(logits + row * args.Vp + vec * kSize, Vec<T>{});
      continue;
    }
#pragma unroll 4
    for (int vec = threadIdx.x; vec < num_vecs; vec += kLossThreads) {
      float values[kSize];
      unpack(load(row, turn, vec), values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = exponential<T>(values[j], sum.maximum) * factor;
      store_vec(logits + row * args.Vp + vec * kSize, pack<T>(values));
    }
    // Overwrites the target's gradient, which this thread has just stored.
    if (owns_target) {
      const float p = exponential<T>(target_logit[turn], sum.maximum) * factor;
      logits[row * args.Vp + target] = static_cast<T>(p - scale);
    }
  }
}

constexpr int kSampleThreads = 256;

// A block owns a sample.
__global__ void __launch_bounds__(kSampleThreads)
    sample_losses_kernel(float* out, const float* losses, const float* loss_mask, int64_t T) {
  const int64_t first = blockIdx.x * T;
  float sums[2] = {};  // losses, mask
  for (int64_t t = threadIdx.x; t < T; t += kSampleThreads) {
    sums[0] += losses[first + t];
    sums[1] += loss_mask != nullptr ? loss_mask[first + t] : 1.0F;
  }
  block_sum(sums);
  if (threadIdx.x == 0) out[blockIdx.x] = sums[1] == 0.0F ? 0.0F : sums[0] / sums[1];
}

template <typename T>
void launch(cudaStream_t stream, const LossArgs& args) {
  const int64_t ring_bytes = 2 * args.Vp * static_cast<int64_t>(sizeof(T));
  const int64_t num_sms = num_multiprocessors();
  const auto kernel = cross_entropy_kernel<T, true>;
  const void* function = reinterpret_cast<const void*>(kernel);
  if (fits_shared_memory(function, ring_bytes)) {
    allow_shared_memory(function, static_cast<int>(ring_bytes), "cross_entropy_kernel");
    kernel<<<grid_size(std::min(args.N, num_sms)), kLossThreads, static_cast<size_t>(ring_bytes),
             stream>>>(args);
  } else {
    cross_entropy_kernel<T, false>
        <<<grid_size(std::min(args.N, 2 * num_sms)), kLossThreads, 0, stream>>>(args);
  }
}

}  // namespace

void run(const Context& context, const CrossEntropy& op) {
  constexpr const char* kName = "cross_entropy";
  const Tensor& logits = op.logits;
  require_multiple(kName, "the padded vocabulary", num_columns(logits), 8);
  require_aligned(kName, {logits});
  const LossArgs args{op.losses.as<float>(),
                      logits.data(),
                      op.targets.as<const int32_t>(),
                      op.loss_mask.as<const float>(),
                      num_rows(logits),
                      num_columns(logits),
                      op.vocabulary_size,
                      op.gradient_scale,
                      op.writes_gradient};
  dispatch(logits.dtype(), [&](auto type) { launch<decltype(type)>(context.stream, args); });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const SampleLosses& op) {
  sample_losses_kernel<<<grid_size(num_rows(op.losses)), kSampleThreads, 0, context.stream>>>(
      op.out.as<float>(), op.losses.as<const float>(), op.loss_mask.as<const float>(),
      num_columns(op.losses));
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
