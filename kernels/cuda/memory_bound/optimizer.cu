// Gradient clipping, AdamW, and what Muon computes element by element. AdamW is one launch over the
// flat parameters of a rank.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/numbers/moment_rounding.h"
#include "kernels/numbers/split_master.h"
#include "kernels/operations/muon.h"
#include "kernels/operations/optimizer.h"

namespace weft::cuda {
namespace {

__global__ void clip_kernel(float* clip, const float* sum_of_squares, float max_norm) {
  const float norm = sqrtf(*sum_of_squares);
  clip[0] = norm;
  clip[1] = max_norm == 0.0F ? 1.0F : fminf(1.0F, max_norm / (norm + 1e-6F));
}

// The factors of a step that are equal for all elements, computed on the host in double.
struct AdamWStep {
  float beta1, beta2, eps, one_minus_beta1, one_minus_beta2;
  float step_size;         // lr / (1 - beta1^step)
  float inv_sqrt_correct;  // 1 / sqrt(1 - beta2^step)
  float keep;              // 1 - lr * weight_decay
  // of the random numbers for moments in bf16
  uint64_t seed;
  int64_t number;
};

template <typename T>
__device__ void load_four(const T* from, float (&values)[4]) {
  unpack(load_vec<4>(from), values);
}

// Rounds to the nearest.
template <typename T>
__device__ void store_four(T* to, const float (&values)[4]) {
  store_vec(to, pack<T>(values));
}

// The four moments, first or second, of the thread's elements. Those in bf16 take the random
// numbers.
__device__ void store_moments(float* to, const float (&values)[4], const uint32_t (&)[4]) {
  store_four(to, values);
}

__device__ void store_moments(bf16* to, const float (&values)[4], const uint32_t (&random)[4]) {
  uint32_t bits[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) bits[j] = round_at_random(__float_as_uint(values[j]), random[j]);
  *reinterpret_cast<uint2*>(to) = make_uint2(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
}

// --- masters of bf16 weights (split_master.h): `remainder` is that of the block, `thread` has
// elements 4 * thread to 4 * thread + 3 of it ---

__device__ void load_masters(const bf16* param, const uint8_t* remainder, int thread,
                             float (&masters)[4]) {
  const uint2 weights = reinterpret_cast<const uint2*>(param)[thread];
  const uint2 lows = reinterpret_cast<const uint2*>(remainder)[thread];
  const uint32_t ties = remainder[kTieBitsOffset + thread / 2] >> (thread % 2 * 4);
  const uint32_t weight[4] = {weights.x & 0xffffu, weights.x >> 16, weights.y & 0xffffu,
                              weights.y >> 16};
  const uint32_t low[4] = {lows.x & 0xffffu, lows.x >> 16, lows.y & 0xffffu, lows.y >> 16};
#pragma unroll
  for (int j = 0; j < 4; ++j)
    masters[j] = __uint_as_float(joined_master(weight[j], low[j], (ties >> j & 1) != 0));
}

// All threads of the warp must call: two neighbours share a byte of tie bits.
__device__ void store_masters(bf16* param, uint8_t* remainder, int thread,
                              const float (&masters)[4]) {
  store_four(param + 4 * thread, masters);
  uint32_t bits[4], ties = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    bits[j] = __float_as_uint(masters[j]);
    ties |= is_tie_upwards(bits[j]) ? 1u << j : 0u;
  }
  reinterpret_cast<uint2*>(remainder)[thread] =
      make_uint2((bits[0] & 0xffffu) | bits[1] << 16, (bits[2] & 0xffffu) | bits[3] << 16);
  const uint32_t of_next = __shfl_down_sync(0xffffffffu, ties, 1);
  if (thread % 2 == 0)
    remainder[kTieBitsOffset + thread / 2] = static_cast<uint8_t>(ties | of_next << 4);
}

// M is the type of the moments.
template <typename T, typename M>
struct AdamWArrays {
  T* param;
  float* master;       // fp32 and fp16 weights
  uint8_t* remainder;  // bf16 weights
  M *m, *v;
  const float* grad;
  const uint8_t* decays;
  const float* clip;
  const int32_t* block_numbers;  // moments in bf16
};

// Each thread updates 4 elements, and each block of the grid one kOptimizerBlock, so that its decay
// flag is uniform. Memory is the only limit here. An element costs, read and written:
//   fp32 28 bytes, fp16 30, bf16 28.25; with moments in bf16 8 bytes less
template <typename T, typename M>
__global__ void adamw_kernel(AdamWArrays<T, M> arrays, AdamWStep step) {
  constexpr bool kIsSplit = std::is_same_v<T, bf16>;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = blockIdx.x * kOptimizerBlock, i = first + thread * 4;
  const float coefficient = arrays.clip[1];
  const float keep = arrays.decays[blockIdx.x] != 0 ? step.keep : 1.0F;
  uint8_t* remainder = nullptr;
  float w[4], m_new[4], v_new[4], g[4];
  load_four(arrays.grad + i, g);
  load_four(arrays.m + i, m_new);
  load_four(arrays.v + i, v_new);
  if constexpr (kIsSplit) {
    remainder = arrays.remainder + blockIdx.x * kRemainderBlockBytes;
    load_masters(arrays.param + first, remainder, thread, w);
  } else {
    load_four(arrays.master + i, w);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float gradient = g[j] * coefficient;
    m_new[j] = step.beta1 * m_new[j] + step.one_minus_beta1 * gradient;
    v_new[j] = step.beta2 * v_new[j] + step.one_minus_beta2 * gradient * gradient;
    const float denominator = sqrtf(v_new[j]) * step.inv_sqrt_correct + step.eps;
    w[j] = w[j] * keep - step.step_size * m_new[j] / denominator;
  }
  uint32_t random_m[4] = {}, random_v[4] = {};
  if constexpr (std::is_same_v<M, bf16>) {
    const PhiloxBlock numbers =
        moment_random_numbers(step.seed, step.number, arrays.block_numbers[blockIdx.x], thread);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      random_m[j] = numbers.word[j] & 0xffffu;
      random_v[j] = numbers.word[j] >> 16;
    }
  }
  store_moments(arrays.m + i, m_new, random_m);
  store_moments(arrays.v + i, v_new, random_v);
  if constexpr (kIsSplit) {
    store_masters(arrays.param + first, remainder, thread, w);
  } else {
    store_four(arrays.master + i, w);
    // fp32 weights are their own masters.
    if constexpr (!std::is_same_v<T, float>) store_four(arrays.param + i, w);
  }
}

// An element costs 16 bytes, read and written.
__global__ void momentum_kernel(float* m, float* grad, const float* clip, float beta_complement,
                                float gradient_part) {
  const int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * 4;
  const float coefficient = clip[1];
  float m_new[4], g[4];
  load_four(m + i, m_new);
  load_four(grad + i, g);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    g[j] *= coefficient;
    m_new[j] += beta_complement * (g[j] - m_new[j]);
    g[j] = m_new[j] + gradient_part * (g[j] - m_new[j]);
  }
  store_four(m + i, m_new);
  store_four(grad + i, g);
}

// A block of the grid updates one kOptimizerBlock.
template <typename T>
__global__ void muon_update_kernel(T* param, float* master, uint8_t* remainder, const float* update,
                                   float keep, float lr) {
  constexpr bool kIsSplit = std::is_same_v<T, bf16>;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = blockIdx.x * kOptimizerBlock, i = first + thread * 4;
  float w[4], u[4];
  load_four(update + i, u);
  if constexpr (kIsSplit) {
    remainder += blockIdx.x * kRemainderBlockBytes;
    load_masters(param + first, remainder, thread, w);
  } else {
    load_four(master + i, w);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) w[j] = w[j] * keep - lr * u[j];
  if constexpr (kIsSplit) {
    store_masters(param + first, remainder, thread, w);
  } else {
    store_four(master + i, w);
    if constexpr (!std::is_same_v<T, float>) store_four(param + i, w);
  }
}

__global__ void split_masters_kernel(bf16* param, uint8_t* remainder, const float* master) {
  const int64_t first = blockIdx.x * kOptimizerBlock;
  const int thread = static_cast<int>(threadIdx.x);
  float w[4];
  load_four(master + first + 4 * thread, w);
  store_masters(param + first, remainder + blockIdx.x * kRemainderBlockBytes, thread, w);
}

__global__ void join_masters_kernel(float* master, const bf16* param, const uint8_t* remainder) {
  const int64_t first = blockIdx.x * kOptimizerBlock;
  const int thread = static_cast<int>(threadIdx.x);
  float w[4];
  load_masters(param + first, remainder + blockIdx.x * kRemainderBlockBytes, thread, w);
  store_four(master + first + 4 * thread, w);
}

constexpr unsigned kThreads = kOptimizerBlock / 4;

template <typename T, typename M>
void launch_adamw(cudaStream_t stream, const AdamW& args, const AdamWStep& step) {
  const AdamWArrays<T, M> arrays{.param = args.param.as<T>(),
                                 .master = args.master.as<float>(),
                                 .remainder = args.remainder.as<uint8_t>(),
                                 .m = args.m.as<M>(),
                                 .v = args.v.as<M>(),
                                 .grad = args.grad.as<const float>(),
                                 .decays = args.decays.as<const uint8_t>(),
                                 .clip = args.clip.as<const float>(),
                                 .block_numbers = args.block_numbers.as<const int32_t>()};
  const unsigned blocks = grid_size(args.param.num_elements() / kOptimizerBlock);
  adamw_kernel<<<blocks, kThreads, 0, stream>>>(arrays, step);
}

}  // namespace

void run(const Context& context, const ClipCoefficient& op) {
  clip_kernel<<<1, 1, 0, context.stream>>>(op.clip.as<float>(), op.sum_of_squares.as<const float>(),
                                           op.max_norm);
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const AdamW& op) {
  require_aligned("adamw", {op.param, op.master, op.remainder, op.m, op.v, op.grad});
  const double correction1 = 1.0 - std::pow(static_cast<double>(op.beta1), op.step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(op.beta2), op.step);
  AdamWStep step;
  step.beta1 = op.beta1;
  step.beta2 = op.beta2;
  step.eps = op.eps;
  step.one_minus_beta1 = static_cast<float>(1.0 - static_cast<double>(op.beta1));
  step.one_minus_beta2 = static_cast<float>(1.0 - static_cast<double>(op.beta2));
  step.step_size = static_cast<float>(op.lr / correction1);
  step.inv_sqrt_correct = static_cast<float>(1.0 / std::sqrt(correction2));
  step.keep = static_cast<float>(1.0 - static_cast<double>(op.lr) * op.weight_decay);
  step.seed = op.seed;
  step.number = op.step;
  dispatch(op.param.dtype(), [&](auto type) {
    using T = decltype(type);
    if (op.m.dtype() == DType::kBFloat16) {
      launch_adamw<T, bf16>(context.stream, op, step);
    } else {
      launch_adamw<T, float>(context.stream, op, step);
    }
  });
  CUDA_CHECK(cudaGetLastError());
}

// With Nesterov's momentum a share of 1 - beta of the gradient stays beside the new momentum.
void run(const Context& context, const MuonMomentum& op) {
  require_aligned("muon_momentum", {op.m, op.grad});
  const auto beta_complement = static_cast<float>(1.0 - op.beta);
  const unsigned blocks = grid_size(op.m.num_elements() / kOptimizerBlock);
  momentum_kernel<<<blocks, kThreads, 0, context.stream>>>(
      op.m.as<float>(), op.grad.as<float>(), op.clip.as<const float>(), beta_complement,
      op.nesterov ? beta_complement : 0.0F);
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const MuonUpdate& op) {
  require_aligned("muon_update", {op.param, op.master, op.remainder, op.update});
  const unsigned blocks = grid_size(op.param.num_elements() / kOptimizerBlock);
  dispatch(op.param.dtype(), [&](auto type) {
    using T = decltype(type);
    muon_update_kernel<T><<<blocks, kThreads, 0, context.stream>>>(
        op.param.as<T>(), op.master.as<float>(), op.remainder.as<uint8_t>(),
        op.update.as<const float>(), static_cast<float>(1.0 - op.lr * op.weight_decay),
        static_cast<float>(op.lr));
  });
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const SplitMasters& op) {
  require_aligned("split_masters", {op.param, op.remainder, op.master});
  const unsigned blocks = grid_size(op.param.num_elements() / kOptimizerBlock);
  split_masters_kernel<<<blocks, kThreads, 0, context.stream>>>(
      op.param.as<bf16>(), op.remainder.as<uint8_t>(), op.master.as<const float>());
  CUDA_CHECK(cudaGetLastError());
}

void run(const Context& context, const JoinMasters& op) {
  require_aligned("join_masters", {op.param, op.remainder, op.master});
  const unsigned blocks = grid_size(op.param.num_elements() / kOptimizerBlock);
  join_masters_kernel<<<blocks, kThreads, 0, context.stream>>>(
      op.master.as<float>(), op.param.as<const bf16>(), op.remainder.as<const uint8_t>());
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
