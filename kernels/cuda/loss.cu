// Softmax cross-entropy and its gradient, in place. A block owns a row, reads it from memory once
// and writes it once: in between the row waits in shared memory (GPT-2's 50,304 bf16 logits are 98
// KiB, so two blocks share a multiprocessor, and one loads while the other stores). Rows too long
// for that are read twice.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 512;
// Two blocks of this fit the 227 KiB of a Hopper multiprocessor; one does on Ampere (163 KiB).
constexpr int64_t kMaxCachedBytes = 112 * 1024;

template <typename T>
__device__ inline float exponential(float x) {
  // The fast form is off by 2 ulp more: nothing beside bf16's rounding.
  if constexpr (sizeof(T) == 4) return expf(x);
  return __expf(x);
}

struct LossArgs {
  float* losses;
  void* logits;
  const int32_t* targets;
  const float* loss_mask;
  int64_t Vp, vocabulary_size;
  float gradient_scale;
  bool gradient;
};

// -infinity in the columns that do not take part.
template <typename T>
__device__ inline void load_logits(const Vec<T>& vec, int64_t column, int64_t vocabulary_size,
                                   float (&values)[Vec<T>::kSize]) {
  unpack(vec, values);
  if (column + Vec<T>::kSize > vocabulary_size) {
#pragma unroll
    for (int j = 0; j < Vec<T>::kSize; ++j)
      if (column + j >= vocabulary_size) values[j] = -INFINITY;
  }
}

template <typename T, bool kCached>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(LossArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  extern __shared__ uint4 cache_bytes[];
  auto* cache = reinterpret_cast<Vec<T>*>(cache_bytes);
  T* row = static_cast<T*>(args.logits) + blockIdx.x * args.Vp;
  const int num_vecs = static_cast<int>(args.Vp / kSize);
  const int64_t vocabulary_size = args.vocabulary_size;

  // Maximum and sum of exponentials relative to it, corrected whenever the maximum grows [Milakov &
  // Gimelshein 2018, arXiv:1805.02867].
  float maximum = -INFINITY, total[1] = {};
  const auto absorb = [&](const Vec<T>& vec, int i) {
    float values[kSize];
    load_logits(vec, static_cast<int64_t>(i) * kSize, vocabulary_size, values);
    float largest = values[0];
#pragma unroll
    for (int j = 1; j < kSize; ++j) largest = fmaxf(largest, values[j]);
    if (largest > maximum) {
      total[0] *= exponential<T>(maximum - largest);
      maximum = largest;
    }
    if (maximum == -INFINITY) return;  // a vector of left-out columns only
#pragma unroll
    for (int j = 0; j < kSize; ++j) total[0] += exponential<T>(values[j] - maximum);
  };
  constexpr int kAhead = 4;  // loads in flight per thread
  int i = threadIdx.x;
  for (; i + (kAhead - 1) * kThreads < num_vecs; i += kAhead * kThreads) {
    Vec<T> vecs[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      vecs[k] = load_vec(row + static_cast<int64_t>(i + k * kThreads) * kSize);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if constexpr (kCached) cache[i + k * kThreads] = vecs[k];
      absorb(vecs[k], i + k * kThreads);
    }
  }
  for (; i < num_vecs; i += kThreads) {
    const Vec<T> vec = load_vec(row + static_cast<int64_t>(i) * kSize);
    if constexpr (kCached) cache[i] = vec;
    absorb(vec, i);
  }

  const int32_t target = args.targets[blockIdx.x];
  const bool in_row = target >= 0 && target < vocabulary_size;
  const float target_logit = in_row ? static_cast<float>(row[target]) : 0.0F;
  const float weight = args.loss_mask != nullptr ? args.loss_mask[blockIdx.x] : 1.0F;
  // The barriers inside also part the reads of row[target] from the writes below.
  const float row_maximum = block_max(maximum);
  total[0] = maximum == -INFINITY ? 0.0F : total[0] * exponential<T>(maximum - row_maximum);
  block_sum(total);
  if (threadIdx.x == 0)
    args.losses[blockIdx.x] =
        in_row && weight != 0.0F ? (row_maximum - target_logit + logf(total[0])) * weight : 0.0F;
  if (!args.gradient) return;

  const float scale = args.gradient_scale * weight;
  const float factor = in_row ? scale / total[0] : 0.0F;
#pragma unroll 4
  for (int vec = threadIdx.x; vec < num_vecs; vec += kThreads) {
    const int64_t column = static_cast<int64_t>(vec) * kSize;
    float values[kSize];
    load_logits(kCached ? cache[vec] : load_vec(row + column), column, vocabulary_size, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = exponential<T>(values[j] - row_maximum) * factor;
    const int64_t offset = target - column;
    if (in_row && offset >= 0 && offset < kSize) {
#pragma unroll
      for (int j = 0; j < kSize; ++j)
        if (j == offset) values[j] -= scale;
    }
    store_vec(row + column, pack(values));
  }
}

template <typename T>
void launch(cudaStream_t stream, const LossArgs& args, int64_t N) {
  const int64_t row_bytes = args.Vp * static_cast<int64_t>(sizeof(T));
  if (row_bytes <= kMaxCachedBytes) {
    const auto kernel = cross_entropy_kernel<T, true>;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(kMaxCachedBytes)));
    kernel<<<grid_size(N), kThreads, static_cast<size_t>(row_bytes), stream>>>(args);
  } else {
    cross_entropy_kernel<T, false><<<grid_size(N), kThreads, 0, stream>>>(args);
  }
}

}  // namespace

void cross_entropy(cudaStream_t stream, float* losses, void* logits, const int32_t* targets,
                   const float* loss_mask, DType x, int64_t N, int64_t Vp, int64_t vocabulary_size,
                   float gradient_scale, bool gradient) {
  const LossArgs args{losses, logits,          targets,        loss_mask,
                      Vp,     vocabulary_size, gradient_scale, gradient};
  dispatch(x, [&](auto type) { launch<decltype(type)>(stream, args, N); });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
