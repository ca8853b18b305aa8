// The loss over a sharded vocabulary, in two kernels around an all-gather: statistics of the own
// words, then the losses and the gradient of the own logits. A block owns a row.
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/memory_bound/loss.cuh"

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

}  // namespace

void cross_entropy_statistics(cudaStream_t stream, float* statistics, const void* logits,
                              const int32_t* targets, DType x, int64_t N, int64_t columns,
                              int64_t first_word, int64_t vocabulary_size) {
  ShardedLossArgs args = {};
  args.own_statistics = statistics;
  args.logits = const_cast<void*>(logits);  // only the other kernel writes them
  args.targets = targets;
  args.N = N;
  args.columns = columns;
  args.first_word = first_word;
  args.vocabulary_size = vocabulary_size;
  dispatch(x, [&](auto type) {
    statistics_kernel<decltype(type)><<<grid_size(N), kLossThreads, 0, stream>>>(args);
  });
  CUDA_CHECK(cudaGetLastError());
}

void cross_entropy_gradient(cudaStream_t stream, float* losses, void* logits,
                            const float* statistics, int64_t num_ranks, const int32_t* targets,
                            const float* loss_mask, DType x, int64_t N, int64_t columns,
                            int64_t first_word, int64_t vocabulary_size, float gradient_scale,
                            bool gradient) {
  ShardedLossArgs args = {};
  args.losses = losses;
  args.logits = logits;
  args.statistics = statistics;
  args.num_ranks = num_ranks;
  args.targets = targets;
  args.loss_mask = loss_mask;
  args.N = N;
  args.columns = columns;
  args.first_word = first_word;
  args.vocabulary_size = vocabulary_size;
  args.gradient_scale = gradient_scale;
  dispatch(x, [&](auto type) {
    sharded_loss_kernel<decltype(type)><<<grid_size(N), kLossThreads, 0, stream>>>(args, gradient);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
