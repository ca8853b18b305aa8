// Gradient clipping and AdamW. AdamW is one launch over the flat parameters of a rank.
#include "kernels/cuda/memory_bound/device.cuh"
#include "kernels/cuda/memory_bound/kernels.h"

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
};

// Each thread updates 4 elements, and each block of the grid one kOptimizerBlock, so that its decay
// flag is uniform. An element costs 16 bytes read and 12 written, and 2 more for a 16-bit parameter:
// memory is the only limit here.
template <typename T>
__global__ void adamw_kernel(T* param, float* master, float* m, float* v, const float* grad,
                             const uint8_t* decays, const float* clip, AdamWStep step) {
  const int64_t i = blockIdx.x * kOptimizerBlock + threadIdx.x * 4;
  const float coefficient = clip[1];
  const float keep = decays[blockIdx.x] != 0 ? step.keep : 1.0F;
  float w[4], m_new[4], v_new[4], g[4];
  unpack(load_vec(grad + i), g);
  unpack(load_vec(m + i), m_new);
  unpack(load_vec(v + i), v_new);
  unpack(load_vec(master + i), w);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float gradient = g[j] * coefficient;
    m_new[j] = step.beta1 * m_new[j] + step.one_minus_beta1 * gradient;
    v_new[j] = step.beta2 * v_new[j] + step.one_minus_beta2 * gradient * gradient;
    const float denominator = sqrtf(v_new[j]) * step.inv_sqrt_correct + step.eps;
    w[j] = w[j] * keep - step.step_size * m_new[j] / denominator;
  }
  store_vec(m + i, pack<float>(m_new));
  store_vec(v + i, pack<float>(v_new));
  store_vec(master + i, pack<float>(w));
  if constexpr (sizeof(T) == 2) {
    struct alignas(8) Pairs {
      decltype(round_pair<T>(0.0F, 0.0F)) v[2];
    };
    *reinterpret_cast<Pairs*>(param + i) = {{round_pair<T>(w[0], w[1]), round_pair<T>(w[2], w[3])}};
  } else if (param != master) {
    store_vec(param + i, pack<float>(w));
  }
}

}  // namespace

void clip_coefficient(cudaStream_t stream, float* clip, const float* sum_of_squares,
                      float max_norm) {
  clip_kernel<<<1, 1, 0, stream>>>(clip, sum_of_squares, max_norm);
  CUDA_CHECK(cudaGetLastError());
}

void adamw(cudaStream_t stream, const AdamW& args) {
  const double correction1 = 1.0 - std::pow(static_cast<double>(args.beta1), args.step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(args.beta2), args.step);
  AdamWStep step;
  step.beta1 = args.beta1;
  step.beta2 = args.beta2;
  step.eps = args.eps;
  step.one_minus_beta1 = static_cast<float>(1.0 - static_cast<double>(args.beta1));
  step.one_minus_beta2 = static_cast<float>(1.0 - static_cast<double>(args.beta2));
  step.step_size = static_cast<float>(args.lr / correction1);
  step.inv_sqrt_correct = static_cast<float>(1.0 / std::sqrt(correction2));
  step.keep = static_cast<float>(1.0 - static_cast<double>(args.lr) * args.weight_decay);
  dispatch(args.param.dtype(), [&](auto type) {
    using T = decltype(type);
    const unsigned blocks = grid_size(args.master.num_elements() / kOptimizerBlock);
    adamw_kernel<<<blocks, kOptimizerBlock / 4, 0, stream>>>(
        args.param.as<T>(), args.master.as<float>(), args.m.as<float>(), args.v.as<float>(),
        args.grad.as<const float>(), args.decays.as<const uint8_t>(), args.clip.as<const float>(),
        step);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
