// Sums over flat ranges, and AdamW.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

namespace {

constexpr int64_t kNumPieces = 256;  // pieces of every sum, for any number of threads

WEFT_VECTOR_CLONES double sum_piece(const float* inp, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(inp[i]);
  return sum;
}

WEFT_VECTOR_CLONES double sum_squares_piece(const float* inp, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(inp[i]) * static_cast<double>(inp[i]);
  return sum;
}

template <typename SumPiece>
double sum_in_pieces(const Context& context, const float* inp, int64_t n, SumPiece sum_piece_of) {
  std::array<double, kNumPieces> partial{};
  // Below 4096 elements a task costs more than its work.
  const int64_t length = std::max<int64_t>(4096, (n + kNumPieces - 1) / kNumPieces);
  context.for_each_range(n, length, [&](int64_t begin, int64_t end, int) {
    partial[static_cast<size_t>(begin / length)] = sum_piece_of(inp + begin, end - begin);
  });
  double total = 0;
  for (const double piece : partial) total += piece;
  return total;
}

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

Update update_of(const AdamW& args) {
  const double step = static_cast<double>(args.step);
  Update update{};
  update.gradient_factor = args.clip.as<float>()[1];
  update.decay_factor = static_cast<float>(1.0 - args.lr * args.weight_decay);
  update.beta1_complement = static_cast<float>(1.0 - args.beta1);
  update.beta2 = static_cast<float>(args.beta2);
  update.beta2_complement = static_cast<float>(1.0 - args.beta2);
  update.step_size = static_cast<float>(args.lr / (1.0 - std::pow(args.beta1, step)));
  update.bias_correction2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(args.beta2, step)));
  update.eps = static_cast<float>(args.eps);
  return update;
}

}  // namespace

double sum(const Context& context, const float* inp, int64_t n) {
  return sum_in_pieces(context, inp, n, sum_piece);
}

double sum_of_squares(const Context& context, const float* inp, int64_t n) {
  return sum_in_pieces(context, inp, n, sum_squares_piece);
}

void adamw(const Context& context, const AdamW& args) {
  constexpr int64_t kBlocksPerTask = 16;
  const Update update = update_of(args);
  const int64_t n = args.param.num_elements();
  context.for_each_range(n, kBlocksPerTask * kOptimizerBlock, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kOptimizerBlock) {
      const bool decays = args.decays.as<uint8_t>()[i / kOptimizerBlock] != 0;
      adamw_block(args.master.as<float>() + i, args.m.as<float>() + i, args.v.as<float>() + i,
                  args.grad.as<float>() + i, update, decays ? update.decay_factor : 1.0F,
                  kOptimizerBlock);
      store_row(args.param, i, kOptimizerBlock, args.master.as<float>() + i);
    }
  });
}

}  // namespace weft::cpu
