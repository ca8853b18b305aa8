// The scratch that the operations of this folder need, and sums of columns.
// The operations themselves are cpu::run() of kernels/operations, with arguments that are checked.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops/context.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/operations/operations.h"

namespace weft::cpu {

// Returns the scratch that each thread needs for an operation: so much, or that of the product of a
// tile.
int64_t scratch_floats(const EmbeddingBackward& op);
int64_t scratch_floats(const ResidualNormForward& op);
int64_t scratch_floats(const ResidualNormBackward& op);
int64_t scratch_floats(const Rotary& op);
int64_t scratch_floats(const QkNormForward& op);
int64_t scratch_floats(const QkNormBackward& op);
int64_t scratch_floats(const AttentionForward& op);
int64_t scratch_floats(const AttentionBackward& op);
int64_t scratch_floats(const CrossEntropy& op);
int64_t scratch_floats(const CrossEntropyStatistics& op);
int64_t scratch_floats(const CrossEntropyGradient& op);
int64_t scratch_floats(const NormalizeMatrix& op);
int64_t scratch_floats(const ScaleMatrix& op);
int64_t scratch_floats(const SampleTokens& op);
template <typename Op>
int64_t scratch_floats(const Op&) {
  return kGemmScratchFloats;
}

// Returns the number that `offset` holds, or 0 without one.
inline int64_t value_of(const Tensor& offset) { return offset ? offset.as<const int32_t>()[0] : 0; }

// out (O) fp32 = column sums of inp (N,O), plus out where `accumulate`. One task owns a block of
// columns and walks all rows in order. It needs kGemmScratchFloats or less.
void column_sums(const Context& context, const Tensor& out, const Tensor& inp, bool accumulate);

}  // namespace weft::cpu
