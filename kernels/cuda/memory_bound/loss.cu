// Softmax cross-entropy and its gradient, in place.
//
// A block owns a row, reads it from memory once and writes it once. Between the two the row stays
// in shared memory, where the next row arrives meanwhile (two rows of GPT-2's 50,304 bf16 logits
// take 197 KiB of a Hopper multiprocessor's 227). Longer rows are read twice, the second time
// mostly from L2.
#include <algorithm>

#include "kernels/cuda/memory_bound/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 1024;

// Returns exp(x - maximum). bf16 models use the special-function unit, in two instructions. Its
// error of about 2^-22 is nothing beside bf16's rounding; __expf needs four more instructions to
// get denormal results right.
template <typename T>
__device__ inline float exponential(float x, float maximum) {
  if constexpr (sizeof(T) == 4) return expf(x - maximum);
  constexpr float kLog2E = 1.4426950408889634F;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(fmaf(x, kLog2E, -maximum * kLog2E)));
  return result;
}

__device__ inline float largest_of(const Vec<float>& vec) {
  return fmaxf(fmaxf(vec.v[0], vec.v[1]), fmaxf(vec.v[2], vec.v[3]));
}

__device__ inline float largest_of(const Vec<bf16>& vec) {
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&vec);
  const float2 pair =
      __bfloat1622float2(__hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3])));
  return fmaxf(pair.x, pair.y);
}

struct LossArgs {
  float* losses;
  void* logits;
  const int32_t* targets;
  const float* loss_mask;
  int64_t N, Vp, vocabulary_size;
  float gradient_scale;
  bool gradient;
};

// Puts minus infinity into the columns that do not take part.
template <typename T>
__device__ inline void leave_out_columns_from(int count, Vec<T>& vec) {
#pragma unroll
  for (int j = 0; j < Vec<T>::kSize; ++j)
    if (j >= count) vec.v[j] = static_cast<T>(-INFINITY);
}

// The largest logit and the sum of exponentials relative to it.
// [Milakov & Gimelshein 2018, arXiv:1805.02867]
template <typename T>
struct LogSum {
  float maximum = -INFINITY, total = 0.0F;

  __device__ void absorb(const Vec<T>& vec) {
    const float largest = largest_of(vec);
    if (largest > maximum) {
      total *= exponential<T>(maximum, largest);
      maximum = largest;
    }
    if (maximum == -INFINITY) return;  // a vector of left-out columns only
    float values[Vec<T>::kSize];
    unpack(vec, values);
#pragma unroll
    for (int j = 0; j < Vec<T>::kSize; ++j) total += exponential<T>(values[j], maximum);
  }

  // Combines the values of all lanes; every lane gets the result.
  __device__ void join_warp() {
    const float largest = warp_max(maximum);
    total = warp_sum(maximum == -INFINITY ? 0.0F : total * exponential<T>(maximum, largest));
    maximum = largest;
  }

  // Combines the values of all threads. `turn` alternates between two places, so that one barrier
  // suffices: no thread writes where others still read.
  __device__ void join_block(int turn) {
    __shared__ float shared[2][2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
    join_warp();
    if (lane == 0) {
      shared[turn][0][warp] = maximum;
      shared[turn][1][warp] = total;
    }
    __syncthreads();
    maximum = lane < num_warps ? shared[turn][0][lane] : -INFINITY;
    total = lane < num_warps ? shared[turn][1][lane] : 0.0F;
    join_warp();
  }
};

// A block processes row after row. With kAhead the next row arrives in shared memory while this one
// is processed; each thread fetches the vectors that it will read.
template <typename T, bool kAhead>
__global__ void __launch_bounds__(kThreads, 1) cross_entropy_kernel(LossArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  extern __shared__ uint4 ring[];
  const int num_vecs = static_cast<int>(args.Vp / kSize);
  const int vocabulary_size = static_cast<int>(args.vocabulary_size);
  auto* logits = static_cast<T*>(args.logits);
  const auto cached = [&](int turn) { return reinterpret_cast<Vec<T>*>(ring) + turn * num_vecs; };
  const auto fetch = [&](int64_t row, int turn) {
    if constexpr (kAhead) {
      if (row < args.N)
        for (int vec = threadIdx.x; vec < num_vecs; vec += kThreads)
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
    for (int vec = threadIdx.x; vec < num_vecs; vec += kThreads) {
      sum.absorb(load(row, turn, vec));
    }
    // The thread that fetched the target's vector is the one that will overwrite it.
    __shared__ float target_logit[2];
    const bool owns_target = in_row && target / kSize % kThreads == threadIdx.x;
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
      for (int vec = threadIdx.x; vec < num_vecs; vec += kThreads)
        store_vec(logits + row * args.Vp + vec * kSize, Vec<T>{});
      continue;
    }
#pragma unroll 4
    for (int vec = threadIdx.x; vec < num_vecs; vec += kThreads) {
      float values[kSize];
      unpack(load(row, turn, vec), values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = exponential<T>(values[j], sum.maximum) * factor;
      store_vec(logits + row * args.Vp + vec * kSize, pack(values));
    }
    // Overwrites the target's gradient, which this thread has just stored.
    if (owns_target) {
      const float p = exponential<T>(target_logit[turn], sum.maximum) * factor;
      logits[row * args.Vp + target] = static_cast<T>(p - scale);
    }
  }
}

// The loss over a sharded vocabulary, in two kernels around an all-gather. A block owns a row.
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
__global__ void __launch_bounds__(kThreads) statistics_kernel(ShardedLossArgs args) {
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(args.logits) + row * args.columns;
  const int num_words = args.num_own_words();
  LogSum<T> sum;
  for (int vec = threadIdx.x; vec * Vec<T>::kSize < num_words; vec += kThreads)
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
__global__ void __launch_bounds__(kThreads)
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
  for (int vec = threadIdx.x; vec * kSize < args.columns; vec += kThreads) {
    float values[kSize] = {};
    if (scale != 0.0F && vec * kSize < num_words) {
      unpack(load_words(logits, vec, num_words), values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        values[j] = exponential<T>(values[j], maximum) * factor;
        if (vec * kSize + j == own_target) values[j] -= scale;
      }
    }
    store_vec(logits + vec * kSize, pack(values));
  }
}

int shared_bytes_per_block() {
  int device = 0, num_bytes = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&num_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return num_bytes;
}

template <typename T>
void launch(cudaStream_t stream, const LossArgs& args) {
  const int64_t ring_bytes = 2 * args.Vp * static_cast<int64_t>(sizeof(T));
  const int64_t num_sms = num_multiprocessors();
  if (ring_bytes <= shared_bytes_per_block() - 1024) {  // the reductions need some as well
    const auto kernel = cross_entropy_kernel<T, true>;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(ring_bytes)));
    kernel<<<grid_size(std::min(args.N, num_sms)), kThreads, static_cast<size_t>(ring_bytes),
             stream>>>(args);
  } else {
    cross_entropy_kernel<T, false>
        <<<grid_size(std::min(args.N, 2 * num_sms)), kThreads, 0, stream>>>(args);
  }
}

}  // namespace

void cross_entropy(cudaStream_t stream, float* losses, void* logits, const int32_t* targets,
                   const float* loss_mask, DType x, int64_t N, int64_t Vp, int64_t vocabulary_size,
                   float gradient_scale, bool gradient) {
  const LossArgs args{losses, logits,          targets,        loss_mask, N,
                      Vp,     vocabulary_size, gradient_scale, gradient};
  dispatch(x, [&](auto type) { launch<decltype(type)>(stream, args); });
  CUDA_CHECK(cudaGetLastError());
}

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
    statistics_kernel<decltype(type)><<<grid_size(N), kThreads, 0, stream>>>(args);
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
    sharded_loss_kernel<decltype(type)><<<grid_size(N), kThreads, 0, stream>>>(args, gradient);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
