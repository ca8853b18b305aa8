// Cross-entropy with its gradient in place of the logits.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 4;  // rows per task
// Sums are fp32 within a block and fp64 between blocks: 50 k terms would lose digits in fp32.
constexpr int64_t kSumBlock = 4096;

WEFT_VECTOR_CLONES float sum_of_exp(const float* values, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += fast_exp(values[i] - shift);
  return sum;
}

// values = scale * softmax(values)
WEFT_VECTOR_CLONES void softmax_row(float* out, const float* values, float lse, float scale,
                                    int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = scale * fast_exp(values[i] - lse);
}

float logsumexp(const float* values, int64_t n) {
  const float max = max_of_row(values, n);
  double sum = 0;
  for (int64_t i = 0; i < n; i += kSumBlock) {
    sum += static_cast<double>(sum_of_exp(values + i, max, std::min(kSumBlock, n - i)));
  }
  return max + static_cast<float>(std::log(sum));
}

void check_targets(const Tensor& targets, int64_t N, int64_t vocabulary_size) {
  for (int64_t n = 0; n < N; ++n) {
    const int64_t target = targets.as<int32_t>()[n];
    if (target >= 0 && target < vocabulary_size) continue;
    throw std::invalid_argument("cross_entropy: target " + std::to_string(target) + " of row " +
                                std::to_string(n) + " is not in the vocabulary of " +
                                std::to_string(vocabulary_size));
  }
}

}  // namespace

int64_t cross_entropy_scratch_floats(int64_t Vp) { return 2 * Vp; }

void cross_entropy(const Context& context, Tensor losses, Tensor logits, Tensor targets,
                   Tensor loss_mask, int64_t vocabulary_size, float gradient_scale, bool gradient) {
  const int64_t N = losses.num_elements(), Vp = logits.num_elements() / N, V = vocabulary_size;
  context.need_scratch("cross_entropy", cross_entropy_scratch_floats(Vp));
  check_targets(targets, N, V);
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t n = begin; n < end; ++n) {
      const float* row = read_row(logits, n * Vp, V, buffer);
      const int64_t target = targets.as<int32_t>()[n];
      const float mask = loss_mask ? loss_mask.as<float>()[n] : 1.0F;
      const float lse = logsumexp(row, V);
      // A row that the mask leaves out has loss 0, even where its logits are not finite.
      losses.as<float>()[n] = mask == 0.0F ? 0.0F : (lse - row[target]) * mask;
      if (!gradient) continue;
      float* out = row_target(logits, n * Vp, buffer + Vp);
      const float scale = gradient_scale * mask;
      if (scale == 0.0F) {
        std::fill_n(out, V, 0.0F);
      } else {
        softmax_row(out, row, lse, scale, V);
        out[target] -= scale;
      }
      std::fill(out + V, out + Vp, 0.0F);
      store_row(logits, n * Vp, Vp, out);
    }
  });
}

}  // namespace weft::cpu
