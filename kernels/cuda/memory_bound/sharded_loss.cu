// The loss over a sharded vocabulary, in two kernels around an all-gather: statistics of the own
// words, then the losses and the gradient of the own logits. A block owns a row.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/memory_bound/loss.cuh"
#include "kernels/operations/loss.h"

namespace weft::cuda {
namespace {

struct ShardedLossArgs {
  float *losses, *own_statistics;
  void* logits;
  const float* statistics;  // (num_ranks,N,3)
  const int32_t* targets;
  const float* loss_mask;
  int64_t N, columns, first_word, vocabulary_size;
  int64_t num_ranks;
  float gradient_scale;

  // The number of own columns that are words and not padding.
  __device__ int num_own_words() const {
    return static_cast<int>(max(int64_t{0}, min(columns, vocabulary_size - first_word)));
  }
};

template <typename T>
__device__ inline Vec<T> load_words(const T* row, int vec, int num_words) {
  Vec<T> values = load_vec(row + vec * Vec<T>::kSize);
  const int count = num_words - vec * Vec<T>::kSize;
  if (count < Vec<T>::kSize) leave_out_columns_from(count, values);
  return values;
}

template <typename T>
__global__ void __launch_bounds__(kLossThreads) statistics_kernel(ShardedLossArgs args) {
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(args.logits) + row * args.columns;
  const int num_words = args.num_own_words();
  LogSum<T> sum;
  for (int vec = threadIdx.x; vec * Vec<T>::kSize < num_words; vec += kLossThreads)
    sum.absorb(load_words(logits, vec, num_words));
  sum.join_block(0);
  if (threadIdx.x != 0) return;
  const int64_t target = args.targets[row] - args.first_word;
  float* result = args.own_statistics + 3 * row;
  result[0] = sum.maximum;
  result[1] = sum.total;
  result[2] = target >= 0 && target < num_words ? static_cast<float>(logits[target]) : 0.0F;
}

template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    sharded_loss_kernel(ShardedLossArgs args, bool gradient) {
  constexpr int kSize = Vec<T>::kSize;
  const int64_t row = blockIdx.x;
  const auto of_rank = [&](int64_t rank) { return args.statistics + 3 * (rank * args.N + row); };
  float maximum = -INFINITY, target_logit = 0.0F, total = 0.0F;
  for (int64_t rank = 0; rank < args.num_ranks; ++rank) {
    maximum = fmaxf(maximum, of_rank(rank)[0]);
    target_logit += of_rank(rank)[2];
  }
  for (int64_t rank = 0; rank < args.num_ranks; ++rank) {
    const float* values = of_rank(rank);
    if (values[1] != 0.0F) total += values[1] * exponential<T>(values[0], maximum);
  }
  const int32_t target = args.targets[row];
  const bool in_row = target >= 0 && target < args.vocabulary_size;
  const float weight = args.loss_mask != nullptr ? args.loss_mask[row] : 1.0F;
  if (threadIdx.x == 0) {
    args.losses[row] =
        in_row && weight != 0.0F ? (maximum - target_logit + logf(total)) * weight : 0.0F;
  }
  if (!gradient) return;
  T* logits = static_cast<T*>(args.logits) + row * args.columns;
  const int num_words = args.num_own_words();
  const float scale = in_row ? args.gradient_scale * weight : 0.0F;
  const float factor = scale / total;
  const int64_t own_target = target - args.first_word;
  for (int vec = threadIdx.x; vec * kSize < args.columns; vec += kLossThreads) {
    float values[kSize] = {};
    if (scale != 0.0F && vec * kSize < num_words) {
      unpack(load_words(logits, vec, num_words), values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        values[j] = exponential<T>(values[j], maximum) * factor;
        if (vec * kSize + j == own_target) values[j] -= scale;
      }
    }
    store_vec(logits + vec * kSize, pack<T>(values));
  }
}

// Checks the logits, and returns what both operations have in common.
template <typename Op>
ShardedLossArgs device_args(const char* name, const Op& op) {
  require_multiple(name, "the padded vocabulary of a rank", num_columns(op.logits), 8);
  require_aligned(name, {op.logits});
  ShardedLossArgs args = {};
  args.own_statistics = op.statistics.template as<float>();
  args.statistics = op.statistics.template as<const float>();
  args.logits = op.logits.data();
  args.targets = op.targets.template as<const int32_t>();
  args.N = num_rows(op.logits);
  args.columns = num_columns(op.logits);
  args.first_word = op.first_word;
  args.vocabulary_size = op.vocabulary_size;
  return args;
}

}  // namespace

void run(const Context& context, const CrossEntropyStatistics& op) {
  const ShardedLossArgs args = device_args("cross_entropy_statistics", op);
  dispatch(op.logits.dtype(), [&](auto type) {
    statistics_kernel<decltype(type)><<<grid_size(args.N), kLossThreads, 0, context.stream>>>(args);
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const CrossEntropyGradient& op) {
  ShardedLossArgs args = device_args("cross_entropy_gradient", op);
  args.losses = op.losses.as<float>();
  args.num_ranks = op.statistics.shape(0);
  args.loss_mask = op.loss_mask.as<const float>();
  args.gradient_scale = op.gradient_scale;
  dispatch(op.logits.dtype(), [&](auto type) {
    sharded_loss_kernel<decltype(type)>
        <<<grid_size(args.N), kLossThreads, 0, context.stream>>>(args, op.writes_gradient);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
