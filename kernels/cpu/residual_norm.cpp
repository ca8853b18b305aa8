// The residual stream: a branch's bias, its dropout, the sum, and the LayerNorm or RMSNorm after
// it; and the backward of all. [Ba et al. 2016, arXiv:1607.06450]
//
// An RMSNorm is a LayerNorm whose mean is 0, and through which therefore no gradient passes.
#include "kernels/operations/residual_norm.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/loops/dropout.h"
#include "kernels/cpu/loops/norm.h"
#include "kernels/cpu/loops/quantize.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 16;        // rows per task
constexpr int64_t kColumnBlock = 64;  // columns per task of the parameter gradients

// Returns the mean of row n that forward has kept: 0 for an RMSNorm.
float mean_of_row(const ResidualNormBackward& op, int64_t n) {
  return op.mean ? op.mean.as<float>()[n] : 0.0F;
}

// One task owns a block of columns and walks all rows in order.
void parameter_gradients(const Context& context, const ResidualNormBackward& op) {
  const int64_t C = op.dweight.num_elements(), N = op.residual.num_elements() / C;
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    const int64_t width = end - begin;
    float* buffer = context.scratch(thread);
    double dw[kColumnBlock] = {}, db[kColumnBlock] = {};
    for (int64_t n = 0; n < N; ++n) {
      add_parameter_gradient(dw, db, read_row(op.dnormed, n * C + begin, width, buffer),
                             read_row(op.residual, n * C + begin, width, buffer + kColumnBlock),
                             mean_of_row(op, n), op.rstd.as<float>()[n], width);
    }
    for (int64_t i = 0; i < width; ++i) {
      float& dweight_i = op.dweight.as<float>()[begin + i];
      dweight_i = static_cast<float>(dw[i]) + (op.accumulate ? dweight_i : 0.0F);
      if (!op.dbias) continue;
      float& dbias_i = op.dbias.as<float>()[begin + i];
      dbias_i = static_cast<float>(db[i]) + (op.accumulate ? dbias_i : 0.0F);
    }
  });
}

// Returns the row of branch_bias for row n of the branch; `op` are those of either direction.
template <typename Args>
int64_t bias_row(const Args& op, int64_t n) {
  const int64_t row = op.first_row + n, position = row % op.bias_period;
  return op.document_bounds ? position - op.document_bounds.template as<int32_t>()[2 * row]
                            : position;
}

// Adds row n of dbranch (N,C) to its row of dbias. One task owns a block of columns and walks all
// rows in order.
void periodic_sums(const Context& context, const ResidualNormBackward& op, Tensor dbranch) {
  const int64_t C = num_columns(dbranch), N = num_rows(dbranch);
  const Tensor dbias = op.dbranch_bias;
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    const int64_t width = end - begin;
    if (!op.accumulate) {
      for (int64_t row = 0; row < num_rows(dbias); ++row) {
        std::fill_n(dbias.as<float>() + row * C + begin, width, 0.0F);
      }
    }
    for (int64_t n = 0; n < N; ++n) {
      float* sum = dbias.as<float>() + bias_row(op, n) * C + begin;
      add_rows(sum, sum, read_row(dbranch, n * C + begin, width, context.scratch(thread)), width);
    }
  });
}

// Computes dropout(branch + branch_bias) of row n, in `buffer` (3*C floats) or in place.
const float* added_row(const ResidualNormForward& op, int64_t n, int64_t C, float* buffer) {
  const float* added = read_row(op.branch, n * C, C, buffer);
  if (op.branch_bias) {
    const int64_t row = bias_row(op, n);
    add_rows(buffer + C, added, read_row(op.branch_bias, row * C, C, buffer + 2 * C), C);
    added = buffer + C;
  }
  if (op.dropout.p > 0) {
    dropout_multipliers(buffer + 2 * C, op.dropout, n * C, C);
    multiply_row(buffer + 2 * C, added, C);
    added = buffer + 2 * C;
  }
  return added;
}

// Writes row n of the norm's output in fp8, rounded from what is stored in x; `buffer` has 2*C
// floats. Returns the largest magnitude.
uint32_t store_fp8(const ResidualNormForward& op, int64_t n, int64_t C, const float* out,
                   float* buffer) {
  const Tensor stored(buffer, op.weight.dtype(), {C});
  store_row(stored, 0, C, out);
  const float* values = read_row(stored, 0, C, buffer + C);
  const float scale = op.normed_fp8.scaling.as<float>()[1];
  uint32_t largest = 0;
  for (int64_t i = 0; i < C; ++i) {
    op.normed_fp8.rows.as<uint8_t>()[n * C + i] = quantized(values[i], scale, DType::kFloat8E4M3);
    largest = std::max(largest, magnitude_bits(values[i]));
  }
  return largest;
}

int64_t scratch_of_rows(int64_t C) { return 6 * std::max(C, kColumnBlock); }

}  // namespace

int64_t scratch_floats(const ResidualNormForward& op) {
  return scratch_of_rows(num_columns(op.branch ? op.branch : op.residual));
}
int64_t scratch_floats(const ResidualNormBackward& op) {
  return scratch_of_rows(num_columns(op.dresidual));
}

void run(const Context& context, const ResidualNormForward& op) {
  const Tensor& rows = op.branch ? op.branch : op.residual;
  const int64_t C = num_columns(rows), N = num_rows(rows);
  context.need_scratch("residual_norm_forward", scratch_floats(op));
  std::vector<uint32_t> largest_of_tasks(op.normed_fp8.rows ? static_cast<size_t>(N / kGrain + 1)
                                                            : 0);
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t n = begin; n < end; ++n) {
      float* sum_buffer = buffer + 2 * C;
      if (op.branch) {
        const float* added = added_row(op, n, C, buffer + 3 * C);
        float* sum = row_target(op.residual_out, n * C, sum_buffer);
        if (op.residual) {
          add_rows(sum, read_row(op.residual, n * C, C, sum_buffer), added, C);
        } else {
          std::copy_n(added, C, sum);
        }
        store_row(op.residual_out, n * C, C, sum);
      }
      if (!op.weight) continue;
      // Normalises the sum as it was stored, because backward will read that one.
      const float* inp = read_row(op.branch ? op.residual_out : op.residual, n * C, C, sum_buffer);
      const float m = op.bias ? mean_of(inp, C) : 0.0F;
      const float r = 1.0F / std::sqrt(variance_of(inp, m, C) + op.epsilon);
      op.rstd.as<float>()[n] = r;
      float* out = op.normed ? row_target(op.normed, n * C, buffer + 3 * C) : buffer + 3 * C;
      const float* weight = read_norm_weight(op.weight, op.weight_offset, C, buffer);
      if (op.bias) {
        op.mean.as<float>()[n] = m;
        normalise(out, inp, m, r, weight, read_row(op.bias, 0, C, buffer + C), C);
      } else {
        normalise_by_rms(out, inp, r, weight, C);
      }
      if (op.normed) store_row(op.normed, n * C, C, out);
      if (!op.normed_fp8.rows) continue;
      uint32_t& largest = largest_of_tasks[static_cast<size_t>(begin / kGrain)];
      largest = std::max(largest, store_fp8(op, n, C, out, buffer + 4 * C));
    }
  });
  if (op.normed_fp8.amax) {
    raise_amax(op.normed_fp8.amax,
               *std::max_element(largest_of_tasks.begin(), largest_of_tasks.end()));
  }
}

void run(const Context& context, const ResidualNormBackward& op) {
  const int64_t C = num_columns(op.dresidual), N = num_rows(op.dresidual);
  context.need_scratch("residual_norm_backward", scratch_floats(op));
  // This comes first, because dresidual may be the memory of dnormed.
  if (op.weight) parameter_gradients(context, op);
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t n = begin; n < end; ++n) {
      float* gradient = buffer + 3 * C;
      if (op.weight) {
        normalise_backward(gradient, read_row(op.dnormed, n * C, C, buffer + C),
                           read_row(op.residual, n * C, C, buffer + 2 * C), mean_of_row(op, n),
                           op.rstd.as<float>()[n],
                           read_norm_weight(op.weight, op.weight_offset, C, buffer),
                           !op.mean.empty(), C);
        if (op.dresidual_in) {
          add_rows(gradient, gradient, read_row(op.dresidual_in, n * C, C, buffer + C), C);
        }
      } else {
        std::copy_n(read_row(op.dresidual_in, n * C, C, buffer), C, gradient);
      }
      store_row(op.dresidual, n * C, C, gradient);
      if (!op.dbranch) continue;
      if (op.dropout.p > 0) {
        dropout_multipliers(buffer + C, op.dropout, n * C, C);
        multiply_row(gradient, buffer + C, C);
      }
      store_row(op.dbranch, n * C, C, gradient);
    }
  });
  if (!op.dbranch_bias) return;
  const Tensor dbranch = op.dbranch ? op.dbranch : op.dresidual;
  if (op.bias_period == 1) {
    column_sums(context, op.dbranch_bias, dbranch, op.accumulate);
  } else {
    periodic_sums(context, op, dbranch);
  }
}

}  // namespace weft::cpu
