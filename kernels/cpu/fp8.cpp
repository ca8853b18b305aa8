// Linear layers in fp8: operands are rounded as on a GPU, and products of them are exact fp32 ones.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/checks/check_shapes.h"
#include "kernels/cpu/loops/gelu.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/quantize.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"
#include "kernels/float8.h"

namespace weft::cpu {

namespace {

constexpr int64_t kColumnBlock = 64;      // columns per task
constexpr int64_t kNumErrorPieces = 256;  // pieces of the sums of squared_error

// Writes `n` numbers that are to be quantized, from element `first` on, to `values`.
void compute_values(const Quantize& args, int64_t first, int64_t n, float* values, float* buffer) {
  const float* inp = args.inp ? read_row(args.inp, first, n, values) : nullptr;
  if (inp != nullptr && inp != values) std::copy_n(inp, n, values);
  if (!args.pre) return;
  const float* pre = read_row(args.pre, first, n, buffer);
  if (inp == nullptr) {
    gelu_row(values, pre, n, args.gelu);
  } else {
    gelu_backward_row(values, pre, n, args.gelu);
  }
}

// Calls row(task, row, column, n, values) for all rows of a block of columns, one task a block.
template <typename Row>
void for_each_row_of_blocks(const Context& context, const Quantize& args, const Row& row) {
  const Tensor& like = args.inp ? args.inp : args.pre;
  const int64_t N = num_rows(like), C = num_columns(like);
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    float* values = context.scratch(thread);
    for (int64_t r = 0; r < N; ++r) {
      compute_values(args, r * C + begin, end - begin, values, values + kColumnBlock);
      row(begin / kColumnBlock, r, begin, end - begin, values);
    }
  });
}

// Returns the largest |value|, or NaN where there is one.
float largest_magnitude(const Context& context, const Quantize& args) {
  std::vector<uint32_t> of_tasks(
      static_cast<size_t>(num_columns(args.inp ? args.inp : args.pre) / kColumnBlock + 1));
  for_each_row_of_blocks(context, args,
                         [&](int64_t task, int64_t, int64_t, int64_t n, const float* values) {
                           uint32_t& largest = of_tasks[static_cast<size_t>(task)];
                           for (int64_t i = 0; i < n; ++i)
                             largest = std::max(largest, magnitude_bits(values[i]));
                         });
  return std::bit_cast<float>(*std::max_element(of_tasks.begin(), of_tasks.end()));
}

}  // namespace

void quantize(const Context& context, const Quantize& args) {
  context.need_scratch("quantize", linear_scratch_floats());
  const Tensor& like = args.inp ? args.inp : args.pre;
  const int64_t N = num_rows(like), C = num_columns(like);
  const DType format = (args.rows ? args.rows : args.transposed).dtype();
  if (args.amax || args.derives_scale) {
    const float amax = largest_magnitude(context, args);
    if (args.amax) raise_amax(args.amax, magnitude_bits(amax));
    if (args.derives_scale) {
      args.scaling.as<float>()[1] = fp8_scale(amax, format);
      args.scaling.as<float>()[0] = 1.0F / args.scaling.as<float>()[1];
    }
  }
  const float scale = args.scaling.as<float>()[1];
  std::vector<double> sums(args.column_sums ? static_cast<size_t>(C) : 0);
  for_each_row_of_blocks(
      context, args, [&](int64_t, int64_t r, int64_t column, int64_t n, float* values) {
        for (int64_t i = 0; i < n; ++i) {
          const uint8_t bits = quantized(values[i], scale, format);
          if (args.rows) args.rows.as<uint8_t>()[r * C + column + i] = bits;
          if (args.transposed) args.transposed.as<uint8_t>()[(column + i) * N + r] = bits;
          if (args.column_sums)
            sums[static_cast<size_t>(column + i)] += static_cast<double>(values[i]);
        }
        if (args.value) store_row(args.value, r * C + column, n, values);
      });
  for (size_t i = 0; i < sums.size(); ++i) {
    float& out = args.column_sums.as<float>()[i];
    out = static_cast<float>(sums[i]) + (args.accumulate ? out : 0.0F);
  }
}

void transpose_fp8(const Context& context, Tensor transposed, Tensor rows) {
  const int64_t N = num_rows(rows), C = num_columns(rows);
  const auto* from = rows.as<uint8_t>();
  auto* to = transposed.as<uint8_t>();
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t r = 0; r < N; ++r)
      for (int64_t c = begin; c < end; ++c) to[c * N + r] = from[r * C + c];
  });
}

void fp8_product(const Context& context, const Fp8Product& args) {
  const int64_t M = args.a.shape(0), N = args.b.shape(0), K = args.a.shape(1);
  context.need_scratch("fp8_product", linear_scratch_floats());
  const float scale = args.a_scaling.as<float>()[0] * args.b_scaling.as<float>()[0];
  multiply(context, Tensor(), {args.a, K, false}, {args.b, K, true}, M, N, K, false,
           [&](const Tile& tile) {
             const int64_t width = tile.num_columns;
             const float* bias =
                 args.bias ? read_row(args.bias, tile.column, width, tile.buffer) : nullptr;
             for (int64_t r = 0; r < tile.num_rows; ++r) {
               float* row = tile.values + r * tile.stride;
               const int64_t first = (tile.row + r) * N + tile.column;
               for (int64_t i = 0; i < width; ++i) row[i] *= scale;
               if (bias != nullptr) add_rows(row, row, bias, width);
               if (args.accumulate) add_rows(row, row, args.out.as<float>() + first, width);
               store_row(args.out, first, width, row);
             }
           });
}

void update_fp8_scaling(const Fp8ScalingUpdate& args) {
  const int64_t length = args.history_len;
  for (int64_t i = 0; i < args.states.shape(0); ++i) {
    float* state = args.states.as<float>() + i * args.states.shape(1);
    float* history = state + 2;
    float& amax = args.amaxes.as<float>()[i];
    history[args.slot] = std::isfinite(amax) ? amax : 0.0F;
    amax = 0.0F;
    const float chosen =
        args.uses_maximum ? *std::max_element(history, history + length) : history[args.slot];
    if (chosen == 0.0F) {
      if (state[1] == 0.0F)
        state[0] = state[1] = 1.0F;  // the state is new: no product may become 0
      continue;
    }
    state[1] = fp8_scale(chosen, args.format, args.margin);
    state[0] = 1.0F / state[1];
  }
}

// Adds up pieces whose number depends on the size alone, so that the bits do not depend on threads.
void squared_error(const Context& context, Tensor out, Tensor value, Tensor reference,
                   bool accumulate) {
  context.need_scratch("squared_error", linear_scratch_floats());
  const int64_t n = value.num_elements();
  const int64_t length = std::max<int64_t>(4096, (n + kNumErrorPieces - 1) / kNumErrorPieces);
  std::array<std::array<double, 2>, kNumErrorPieces> pieces{};
  context.for_each_range(n, length, [&](int64_t begin, int64_t end, int thread) {
    std::array<double, 2>& sums = pieces[static_cast<size_t>(begin / length)];
    float* buffer = context.scratch(thread);
    for (int64_t first = begin; first < end; first += kColumnBlock) {
      const int64_t count = std::min(kColumnBlock, end - first);
      const float* a = read_row(value, first, count, buffer);
      const float* b = read_row(reference, first, count, buffer + kColumnBlock);
      for (int64_t i = 0; i < count; ++i) {
        const double wanted = static_cast<double>(b[i]), error = static_cast<double>(a[i]) - wanted;
        sums[0] += error * error;
        sums[1] += wanted * wanted;
      }
    }
  });
  for (size_t i = 0; i < 2; ++i) {
    double total = accumulate ? static_cast<double>(out.as<float>()[i]) : 0.0;
    for (const std::array<double, 2>& piece : pieces) total += piece[i];
    out.as<float>()[i] = static_cast<float>(total);
  }
}

}  // namespace weft::cpu
