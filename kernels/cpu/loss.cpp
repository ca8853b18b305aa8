// Cross-entropy with its gradient in place of the logits, and its means over samples.
#include "kernels/operations/loss.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"

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

// The sum of e^(value - shift).
double exp_sum(const float* values, float shift, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kSumBlock) {
    sum += static_cast<double>(sum_of_exp(values + i, shift, std::min(kSumBlock, n - i)));
  }
  return sum;
}

float logsumexp(const float* values, int64_t n) {
  const float max = max_of_row(values, n);
  return max + static_cast<float>(std::log(exp_sum(values, max, n)));
}

void check_targets(const char* operation, const Tensor& targets, int64_t N,
                   int64_t vocabulary_size) {
  for (int64_t n = 0; n < N; ++n) {
    const int64_t target = targets.as<int32_t>()[n];
    if (target >= 0 && target < vocabulary_size) continue;
    throw std::invalid_argument(std::string(operation) + ": target " + std::to_string(target) +
                                " of row " + std::to_string(n) + " is not in the vocabulary of " +
                                std::to_string(vocabulary_size));
  }
}

// Replaces row n of the logits, of which `row` holds the first V, by its gradient. A target outside
// [0, V) belongs to another rank. `buffer` holds a whole row.
void gradient_row(const Tensor& logits, int64_t n, const float* row, float lse, float scale,
                  int64_t target, int64_t V, float* buffer) {
  const int64_t columns = num_columns(logits);
  float* out = row_target(logits, n * columns, buffer);
  if (scale == 0.0F) {
    std::fill_n(out, V, 0.0F);
  } else {
    softmax_row(out, row, lse, scale, V);
    if (target >= 0 && target < V) out[target] -= scale;
  }
  std::fill(out + V, out + columns, 0.0F);
  store_row(logits, n * columns, columns, out);
}

// The number of a rank's columns that are words and not padding.
int64_t own_words(int64_t columns, int64_t first_word, int64_t vocabulary_size) {
  return std::clamp<int64_t>(vocabulary_size - first_word, 0, columns);
}

}  // namespace

// A row of logits and its gradient.
int64_t scratch_floats(const CrossEntropy& op) { return 2 * num_columns(op.logits); }
int64_t scratch_floats(const CrossEntropyStatistics& op) { return num_columns(op.logits); }
int64_t scratch_floats(const CrossEntropyGradient& op) { return 2 * num_columns(op.logits); }

void run(const Context& context, const CrossEntropy& op) {
  const Tensor &losses = op.losses, &logits = op.logits, &targets = op.targets;
  const int64_t N = losses.num_elements(), Vp = logits.num_elements() / N, V = op.vocabulary_size;
  context.need_scratch("cross_entropy", scratch_floats(op));
  check_targets("cross_entropy", targets, N, V);
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t n = begin; n < end; ++n) {
      const float* row = read_row(logits, n * Vp, V, buffer);
      const int64_t target = targets.as<int32_t>()[n];
      const float mask = op.loss_mask ? op.loss_mask.as<float>()[n] : 1.0F;
      const float lse = logsumexp(row, V);
      // A row that the mask leaves out has loss 0, even where its logits are not finite.
      losses.as<float>()[n] = mask == 0.0F ? 0.0F : (lse - row[target]) * mask;
      if (!op.writes_gradient) continue;
      gradient_row(logits, n, row, lse, op.gradient_scale * mask, target, V, buffer + Vp);
    }
  });
}

void run(const Context& context, const CrossEntropyStatistics& op) {
  const Tensor &logits = op.logits, &targets = op.targets;
  const int64_t N = targets.num_elements(), columns = logits.num_elements() / N;
  const int64_t V = own_words(columns, op.first_word, op.vocabulary_size);
  context.need_scratch("cross_entropy_statistics", scratch_floats(op));
  check_targets("cross_entropy_statistics", targets, N, op.vocabulary_size);
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t n = begin; n < end; ++n) {
      const float* row = read_row(logits, n * columns, V, context.scratch(thread));
      const int64_t target = targets.as<int32_t>()[n] - op.first_word;
      float* result = op.statistics.as<float>() + 3 * n;
      result[0] = V > 0 ? max_of_row(row, V) : -INFINITY;
      result[1] = V > 0 ? static_cast<float>(exp_sum(row, result[0], V)) : 0.0F;
      result[2] = target >= 0 && target < V ? row[target] : 0.0F;
    }
  });
}

void run(const Context& context, const CrossEntropyGradient& op) {
  const Tensor &losses = op.losses, &logits = op.logits;
  const int64_t N = losses.num_elements(), columns = logits.num_elements() / N;
  const int64_t num_ranks = op.statistics.shape(0);
  const int64_t V = own_words(columns, op.first_word, op.vocabulary_size);
  context.need_scratch("cross_entropy_gradient", scratch_floats(op));
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t n = begin; n < end; ++n) {
      const float mask = op.loss_mask ? op.loss_mask.as<float>()[n] : 1.0F;
      const auto of_rank = [&](int64_t rank) {
        return op.statistics.as<float>() + 3 * (rank * N + n);
      };
      float max = -INFINITY, target_logit = 0;
      for (int64_t rank = 0; rank < num_ranks; ++rank) {
        const float* values = of_rank(rank);
        max = std::max(max, values[0]);
        target_logit += values[2];
      }
      double sum = 0;
      for (int64_t rank = 0; rank < num_ranks; ++rank) {
        const float* values = of_rank(rank);
        if (values[1] != 0.0F) {
          sum += static_cast<double>(values[1]) * std::exp(static_cast<double>(values[0] - max));
        }
      }
      const float lse = max + static_cast<float>(std::log(sum));
      losses.as<float>()[n] = mask == 0.0F ? 0.0F : (lse - target_logit) * mask;
      if (!op.writes_gradient) continue;
      gradient_row(logits, n, read_row(logits, n * columns, V, buffer), lse,
                   op.gradient_scale * mask, op.targets.as<int32_t>()[n] - op.first_word, V,
                   buffer + columns);
    }
  });
}

void run(const Context& context, const SampleLosses& op) {
  const int64_t B = num_rows(op.losses), T = num_columns(op.losses);
  context.for_each_range(B, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      double sum = 0, weight = 0;
      for (int64_t i = b * T; i < (b + 1) * T; ++i) {
        sum += static_cast<double>(op.losses.as<float>()[i]);
        weight += op.loss_mask ? static_cast<double>(op.loss_mask.as<float>()[i]) : 1.0;
      }
      op.out.as<float>()[b] = weight == 0 ? 0.0F : static_cast<float>(sum / weight);
    }
  });
}

}  // namespace weft::cpu
