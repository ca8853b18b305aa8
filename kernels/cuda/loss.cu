// Softmax cross-entropy and its gradient, in place. A block owns a row, reads it from memory once
// and writes it once: in between it waits in shared memory, where the following row arrives
// meanwhile (two rows of GPT-2's 50,304 bf16 logits are 197 KiB of a Hopper multiprocessor's 227).
// Rows too long for that are read twice, the second time mostly from L2.
#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 1024;

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
  int64_t N, Vp, vocabulary_size;
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

// Largest logit and sum of exponentials relative to it [Milakov & Gimelshein 2018,
// arXiv:1805.02867].
template <typename T>
struct LogSum {
  float maximum = -INFINITY, total = 0.0F;

  __device__ void absorb(const float (&values)[Vec<T>::kSize]) {
    float largest = values[0];
#pragma unroll
    for (int j = 1; j < Vec<T>::kSize; ++j) largest = fmaxf(largest, values[j]);
    if (largest > maximum) {
      total *= exponential<T>(maximum - largest);
      maximum = largest;
    }
    if (maximum == -INFINITY) return;  // a vector of left-out columns only
#pragma unroll
    for (int j = 0; j < Vec<T>::kSize; ++j) total += exponential<T>(values[j] - maximum);
  }

  // Of all lanes, known to all.
  __device__ void join_warp() {
    const float largest = warp_max(maximum);
    total = warp_sum(maximum == -INFINITY ? 0.0F : total * exponential<T>(maximum - largest));
    maximum = largest;
  }

  // Of all threads. `turn` alternates, so that one barrier is enough: nobody writes what others
  // still read.
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

// Blocks stay and take row after row. With kAhead the next row arrives in shared memory while this
// one is worked on, each thread fetching what it will read itself.
template <typename T, bool kAhead>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(LossArgs args) {
  constexpr int kSize = Vec<T>::kSize;
  extern __shared__ uint4 ring[];
  const int num_vecs = static_cast<int>(args.Vp / kSize);
  const int64_t vocabulary_size = args.vocabulary_size;
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
  const auto load = [&](int64_t row, int turn, int vec, float(&values)[kSize]) {
    const int64_t column = static_cast<int64_t>(vec) * kSize;
    load_logits(kAhead ? cached(turn)[vec] : load_vec(logits + row * args.Vp + column), column,
                vocabulary_size, values);
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
      float values[kSize];
      load(row, turn, vec, values);
      sum.absorb(values);
    }
    const T* first = kAhead ? reinterpret_cast<const T*>(cached(turn)) : logits + row * args.Vp;
    // Whoever overwrites row[target] below reads it here; in shared memory it is there after the
    // barrier.
    float target_logit = 0.0F;
    if (!kAhead && in_row) target_logit = static_cast<float>(first[target]);
    sum.join_block(turn);
    if (kAhead && in_row) target_logit = static_cast<float>(first[target]);
    if (threadIdx.x == 0)
      args.losses[row] =
          in_row && weight != 0.0F ? (sum.maximum - target_logit + logf(sum.total)) * weight : 0.0F;
    if (!args.gradient) continue;

    const float scale = args.gradient_scale * weight;
    const float factor = in_row ? scale / sum.total : 0.0F;
#pragma unroll 4
    for (int vec = threadIdx.x; vec < num_vecs; vec += kThreads) {
      const int64_t column = static_cast<int64_t>(vec) * kSize;
      float values[kSize];
      load(row, turn, vec, values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = exponential<T>(values[j] - sum.maximum) * factor;
      const int64_t offset = target - column;
      if (in_row && offset >= 0 && offset < kSize) {
#pragma unroll
        for (int j = 0; j < kSize; ++j)
          if (j == offset) values[j] -= scale;
      }
      store_vec(logits + row * args.Vp + column, pack(values));
    }
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
  if (ring_bytes <= shared_bytes_per_block() - 1024) {  // the reductions have some too
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

}  // namespace weft::cuda
