// Linear layers in fp8: operands are rounded as on a GPU, and products of them are exact fp32 ones.
#include "kernels/operations/fp8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/loops/activation.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/quantize.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"
#include "kernels/numbers/float8.h"

namespace weft::cpu {

namespace {

constexpr int64_t kColumnBlock = 64;  // columns per task

// Writes `n` numbers that are to be quantized, from element `first` on, to `values`.
void compute_values(const Quantize& op, int64_t first, int64_t n, float* values, float* buffer) {
  const float* inp = op.inp ? read_row(op.inp, first, n, values) : nullptr;
  if (inp != nullptr && inp != values) std::copy_n(inp, n, values);
  if (!op.pre) return;
  const float* pre = read_row(op.pre, first, n, buffer);
  if (inp == nullptr) {
    activate_row(values, pre, n, op.activation);
  } else {
    activate_backward_row(values, pre, n, op.activation);
  }
}

// Calls row(task, row, column, n, values) for all rows of a block of columns, one task a block.
template <typename Row>
void for_each_row_of_blocks(const Context& context, const Quantize& op, const Row& row) {
  const Tensor& like = op.inp ? op.inp : op.pre;
  const int64_t N = num_rows(like), C = num_columns(like);
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    float* values = context.scratch(thread);
    for (int64_t r = 0; r < N; ++r) {
      compute_values(op, r * C + begin, end - begin, values, values + kColumnBlock);
      row(begin / kColumnBlock, r, begin, end - begin, values);
    }
  });
}

// Returns the largest |value|, or NaN where there is one.
float largest_magnitude(const Context& context, const Quantize& op) {
  std::vector<uint32_t> of_tasks(
      static_cast<size_t>(num_columns(op.inp ? op.inp : op.pre) / kColumnBlock + 1));
  for_each_row_of_blocks(context, op,
                         [&](int64_t task, int64_t, int64_t, int64_t n, const float* values) {
                           uint32_t& largest = of_tasks[static_cast<size_t>(task)];
                           for (int64_t i = 0; i < n; ++i)
                             largest = std::max(largest, magnitude_bits(values[i]));
                         });
  return std::bit_cast<float>(*std::max_element(of_tasks.begin(), of_tasks.end()));
}

}  // namespace

void run(const Context& context, const Quantize& op) {
  context.need_scratch("quantize", kGemmScratchFloats);
  const Tensor& like = op.inp ? op.inp : op.pre;
  const int64_t N = num_rows(like), C = num_columns(like);
  const DType format = (op.rows ? op.rows : op.transposed).dtype();
  if (op.amax || op.derives_scale) {
    const float amax = largest_magnitude(context, op);
    if (op.amax) raise_amax(op.amax, magnitude_bits(amax));
    if (op.derives_scale) {
      op.scaling.as<float>()[1] = fp8_scale(amax, format);
      op.scaling.as<float>()[0] = 1.0F / op.scaling.as<float>()[1];
    }
  }
  const float scale = op.scaling.as<float>()[1];
  std::vector<double> sums(op.column_sums ? static_cast<size_t>(C) : 0);
  for_each_row_of_blocks(
      context, op, [&](int64_t, int64_t r, int64_t column, int64_t n, float* values) {
        for (int64_t i = 0; i < n; ++i) {
          const uint8_t bits = quantized(values[i], scale, format);
          if (op.rows) op.rows.as<uint8_t>()[r * C + column + i] = bits;
          if (op.transposed) op.transposed.as<uint8_t>()[(column + i) * N + r] = bits;
          if (op.column_sums)
            sums[static_cast<size_t>(column + i)] += static_cast<double>(values[i]);
        }
        if (op.value) store_row(op.value, r * C + column, n, values);
      });
  for (size_t i = 0; i < sums.size(); ++i) {
    float& out = op.column_sums.as<float>()[i];
    out = static_cast<float>(sums[i]) + (op.accumulate ? out : 0.0F);
  }
}

void run(const Context& context, const TransposeFp8& op) {
  const int64_t N = num_rows(op.rows), C = num_columns(op.rows);
  const auto* from = op.rows.as<uint8_t>();
  auto* to = op.transposed.as<uint8_t>();
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t r = 0; r < N; ++r)
      for (int64_t c = begin; c < end; ++c) to[c * N + r] = from[r * C + c];
  });
}

void run(const Context& context, const Fp8Product& op) {
  const int64_t M = op.a.shape(0), N = op.b.shape(0), K = op.a.shape(1);
  context.need_scratch("fp8_product", kGemmScratchFloats);
  const float scale = op.a_scaling.as<float>()[0] * op.b_scaling.as<float>()[0];
  multiply(
      context, Tensor(), {op.a, K, false}, {op.b, K, true}, M, N, K, false, [&](const Tile& tile) {
        const int64_t width = tile.num_columns;
        const float* bias = op.bias ? read_row(op.bias, tile.column, width, tile.buffer) : nullptr;
        for (int64_t r = 0; r < tile.num_rows; ++r) {
          float* row = tile.values + r * tile.stride;
          const int64_t first = (tile.row + r) * N + tile.column;
          for (int64_t i = 0; i < width; ++i) row[i] *= scale;
          if (bias != nullptr) add_rows(row, row, bias, width);
          if (op.accumulate) add_rows(row, row, op.out.as<float>() + first, width);
          store_row(op.out, first, width, row);
        }
      });
}

void run(const Context& /*context*/, const UpdateFp8Scaling& op) {
  const int64_t length = op.history_len;
  for (int64_t i = 0; i < op.states.shape(0); ++i) {
    float* state = op.states.as<float>() + i * op.states.shape(1);
    float* history = state + 2;
    float& amax = op.amaxes.as<float>()[i];
    history[op.slot] = std::isfinite(amax) ? amax : 0.0F;
    amax = 0.0F;
    const float chosen =
        op.uses_maximum ? *std::max_element(history, history + length) : history[op.slot];
    if (chosen == 0.0F) {
      if (state[1] == 0.0F)
        state[0] = state[1] = 1.0F;  // the state is new: no product may become 0
      continue;
    }
    state[1] = fp8_scale(chosen, op.format, op.margin);
    state[0] = 1.0F / state[1];
  }
}

}  // namespace weft::cpu
