// Sums over flat ranges, in pieces whose number depends on the size alone: bits do not depend on
// threads.
#include "kernels/operations/reduction.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kErrorBlock = 64;  // elements of a squared error that are converted at a time
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

}  // namespace

void run(const Context& context, const Sum& op) {
  const double total = sum_in_pieces(context, op.inp.as<float>(), op.inp.num_elements(), sum_piece);
  float& out = *op.out.as<float>();
  out = static_cast<float>(op.scale * total) + (op.accumulate ? out : 0.0F);
}

void run(const Context& context, const SumOfSquares& op) {
  *op.out.as<float>() = static_cast<float>(
      sum_in_pieces(context, op.inp.as<float>(), op.inp.num_elements(), sum_squares_piece));
}

void run(const Context& context, const SquaredError& op) {
  context.need_scratch("squared_error", kGemmScratchFloats);
  const int64_t n = op.value.num_elements();
  const int64_t length = std::max<int64_t>(4096, (n + kNumPieces - 1) / kNumPieces);
  std::array<std::array<double, 2>, kNumPieces> pieces{};
  context.for_each_range(n, length, [&](int64_t begin, int64_t end, int thread) {
    std::array<double, 2>& sums = pieces[static_cast<size_t>(begin / length)];
    float* buffer = context.scratch(thread);
    for (int64_t first = begin; first < end; first += kErrorBlock) {
      const int64_t count = std::min(kErrorBlock, end - first);
      const float* a = read_row(op.value, first, count, buffer);
      const float* b = read_row(op.reference, first, count, buffer + kErrorBlock);
      for (int64_t i = 0; i < count; ++i) {
        const double wanted = static_cast<double>(b[i]), error = static_cast<double>(a[i]) - wanted;
        sums[0] += error * error;
        sums[1] += wanted * wanted;
      }
    }
  });
  for (size_t i = 0; i < 2; ++i) {
    double total = op.accumulate ? static_cast<double>(op.out.as<float>()[i]) : 0.0;
    for (const std::array<double, 2>& piece : pieces) total += piece[i];
    op.out.as<float>()[i] = static_cast<float>(total);
  }
}

}  // namespace weft::cpu
