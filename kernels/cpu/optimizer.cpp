// Gradient clipping, AdamW, the masters, and what Muon computes element by element.
#include "kernels/operations/optimizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/loops/context.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/moment_rounding.h"
#include "kernels/numbers/split_master.h"
#include "kernels/operations/muon.h"

namespace weft::cpu {

namespace {

struct Update {
  float gradient_factor, decay_factor, beta1_complement, beta2, beta2_complement;
  float step_size, bias_correction2_sqrt, eps;
};

// The order of operations is that of PyTorch's torch.optim.AdamW (_single_tensor_adamw).
WEFT_VECTOR_CLONES void adamw_block(float* master, float* m, float* v, const float* grad,
                                    const Update& update, float decay_factor, int64_t n) {
  const Update u = update;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * u.gradient_factor;
    m[i] = m[i] + u.beta1_complement * (g - m[i]);
    v[i] = v[i] * u.beta2 + u.beta2_complement * g * g;
    const float denominator = std::sqrt(v[i]) / u.bias_correction2_sqrt + u.eps;
    master[i] = master[i] * decay_factor - u.step_size * (m[i] / denominator);
  }
}

WEFT_VECTOR_CLONES void momentum_block(float* m, float* grad, float clip, float beta_complement,
                                       float gradient_part, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * clip;
    m[i] = m[i] + beta_complement * (g - m[i]);
    grad[i] = m[i] + gradient_part * (g - m[i]);
  }
}

WEFT_VECTOR_CLONES void muon_block(float* master, const float* update, float keep, float lr,
                                   int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) master[i] = master[i] * keep - lr * update[i];
}

// Rounds a block of the first moment (which = 0) or of the second (1) to bf16.
WEFT_VECTOR_CLONES void round_moments(BFloat16* out, const float* inp, uint64_t seed, int64_t step,
                                      int32_t block_number, int which) {
  for (int group = 0; group < kOptimizerBlock / 4; ++group) {
    const PhiloxBlock numbers = moment_random_numbers(seed, step, block_number, group);
    for (int j = 0; j < 4; ++j) {
      const int i = 4 * group + j;
      out[i].bits = round_at_random(std::bit_cast<uint32_t>(inp[i]),
                                    numbers.word[j] >> (16 * which) & 0xffffU);
    }
  }
}

// Adds the low halves to a block of weights. Ties are rare, so a second pass takes them one by one.
WEFT_VECTOR_CLONES void join_block(float* master, const BFloat16* param, const uint8_t* remainder) {
  const auto* low_halves = reinterpret_cast<const uint16_t*>(remainder);
#pragma omp simd
  for (int64_t i = 0; i < kOptimizerBlock; ++i)
    master[i] = std::bit_cast<float>(joined_master(param[i].bits, low_halves[i], false));
  for (int64_t i = 0; i < kOptimizerBlock; ++i) {
    const uint8_t ties = remainder[kTieBitsOffset + i / 8];
    if (ties == 0) {
      i += 7;
    } else if ((ties >> (i % 8) & 1) != 0) {
      master[i] = std::bit_cast<float>(joined_master(param[i].bits, low_halves[i], true));
    }
  }
}

WEFT_VECTOR_CLONES void keep_remainder(uint8_t* remainder, const float* master) {
  auto* low_halves = reinterpret_cast<uint16_t*>(remainder);
  uint32_t any_tie = 0;
#pragma omp simd reduction(| : any_tie)
  for (int64_t i = 0; i < kOptimizerBlock; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(master[i]);
    low_halves[i] = static_cast<uint16_t>(bits);
    any_tie |= is_tie_upwards(bits) ? 1U : 0U;
  }
  uint8_t* ties = remainder + kTieBitsOffset;
  std::memset(ties, 0, kOptimizerBlock / 8);
  if (any_tie == 0) return;
  for (int64_t i = 0; i < kOptimizerBlock; ++i) {
    if (is_tie_upwards(std::bit_cast<uint32_t>(master[i])))
      ties[i / 8] = static_cast<uint8_t>(ties[i / 8] | 1U << (i % 8));
  }
}

void split_block(const Tensor& param, const Tensor& remainder, int64_t first, const float* master) {
  store_row(param, first, kOptimizerBlock, master);
  keep_remainder(remainder.as<uint8_t>() + remainder_bytes(first), master);
}

Update update_of(const AdamW& op) {
  const double step = static_cast<double>(op.step);
  Update update{};
  update.gradient_factor = op.clip.as<float>()[1];
  update.decay_factor = static_cast<float>(1.0 - op.lr * op.weight_decay);
  update.beta1_complement = static_cast<float>(1.0 - op.beta1);
  update.beta2 = static_cast<float>(op.beta2);
  update.beta2_complement = static_cast<float>(1.0 - op.beta2);
  update.step_size = static_cast<float>(op.lr / (1.0 - std::pow(op.beta1, step)));
  update.bias_correction2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(op.beta2, step)));
  update.eps = static_cast<float>(op.eps);
  return update;
}

// Calls task(first element) for every block of kOptimizerBlock elements.
template <typename Task>
void for_each_block(const Context& context, int64_t num_elements, const Task& task) {
  constexpr int64_t kBlocksPerTask = 16;
  context.for_each_range(num_elements, kBlocksPerTask * kOptimizerBlock,
                         [&](int64_t begin, int64_t end, int) {
                           for (int64_t i = begin; i < end; i += kOptimizerBlock) task(i);
                         });
}

}  // namespace

void run(const Context& /*context*/, const ClipCoefficient& op) {
  const float norm = std::sqrt(*op.sum_of_squares.as<float>());
  const float factor = op.max_norm == 0.0F ? 1.0F : op.max_norm / (norm + 1e-6F);
  op.clip.as<float>()[0] = norm;
  // In this form a NaN norm gives a NaN factor, as PyTorch's clamp does.
  op.clip.as<float>()[1] = factor > 1.0F ? 1.0F : factor;
}

void run(const Context& context, const AdamW& op) {
  const Update update = update_of(op);
  const bool is_split = op.param.dtype() == DType::kBFloat16;
  const bool rounds_moments = op.m.dtype() == DType::kBFloat16;
  for_each_block(context, op.param.num_elements(), [&](int64_t i) {
    std::array<float, kOptimizerBlock> master_buffer, m_buffer, v_buffer;
    float* master = is_split ? master_buffer.data() : op.master.as<float>() + i;
    if (is_split)
      join_block(master, op.param.as<BFloat16>() + i,
                 op.remainder.as<uint8_t>() + remainder_bytes(i));
    float* m = row_target(op.m, i, m_buffer.data());
    float* v = row_target(op.v, i, v_buffer.data());
    if (rounds_moments) {
      widen_row(m, op.m, i, kOptimizerBlock);
      widen_row(v, op.v, i, kOptimizerBlock);
    }
    const bool decays = op.decays.as<uint8_t>()[i / kOptimizerBlock] != 0;
    adamw_block(master, m, v, op.grad.as<float>() + i, update, decays ? update.decay_factor : 1.0F,
                kOptimizerBlock);
    if (rounds_moments) {
      const int32_t number = op.block_numbers.as<int32_t>()[i / kOptimizerBlock];
      round_moments(op.m.as<BFloat16>() + i, m, op.seed, op.step, number, 0);
      round_moments(op.v.as<BFloat16>() + i, v, op.seed, op.step, number, 1);
    }
    if (is_split) {
      split_block(op.param, op.remainder, i, master);
    } else {
      store_row(op.param, i, kOptimizerBlock, master);
    }
  });
}

// With Nesterov's momentum a share of 1 - beta of the gradient stays beside the new momentum.
void run(const Context& context, const MuonMomentum& op) {
  const float clip = op.clip.as<float>()[1];
  const auto beta_complement = static_cast<float>(1.0 - op.beta);
  for_each_block(context, op.m.num_elements(), [&](int64_t i) {
    momentum_block(op.m.as<float>() + i, op.grad.as<float>() + i, clip, beta_complement,
                   op.nesterov ? beta_complement : 0.0F, kOptimizerBlock);
  });
}

void run(const Context& context, const MuonUpdate& op) {
  const bool is_split = op.param.dtype() == DType::kBFloat16;
  const auto keep = static_cast<float>(1.0 - op.lr * op.weight_decay);
  const auto lr = static_cast<float>(op.lr);
  for_each_block(context, op.param.num_elements(), [&](int64_t i) {
    std::array<float, kOptimizerBlock> buffer;
    float* master = is_split ? buffer.data() : op.master.as<float>() + i;
    if (is_split)
      join_block(master, op.param.as<BFloat16>() + i,
                 op.remainder.as<uint8_t>() + remainder_bytes(i));
    muon_block(master, op.update.as<float>() + i, keep, lr, kOptimizerBlock);
    if (is_split) {
      split_block(op.param, op.remainder, i, master);
    } else {
      store_row(op.param, i, kOptimizerBlock, master);
    }
  });
}

void run(const Context& context, const SplitMasters& op) {
  for_each_block(context, op.param.num_elements(), [&](int64_t i) {
    split_block(op.param, op.remainder, i, op.master.as<float>() + i);
  });
}

void run(const Context& context, const JoinMasters& op) {
  for_each_block(context, op.param.num_elements(), [&](int64_t i) {
    join_block(op.master.as<float>() + i, op.param.as<BFloat16>() + i,
               op.remainder.as<uint8_t>() + remainder_bytes(i));
  });
}

}  // namespace weft::cpu
