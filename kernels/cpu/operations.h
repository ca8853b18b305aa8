// What the files of this folder share: the scratch that their operations need, and sums of columns. The
// operations themselves are cpu::run() of kernels/operations, with arguments that are checked.
// x_scratch_floats() is the scratch that each thread needs for the operations of x.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops/context.h"
#include "kernels/numbers/tensor.h"

namespace weft::cpu {

int64_t embedding_scratch_floats(int64_t C);
int64_t residual_norm_scratch_floats(int64_t C);
// Activations, fp8 and squared_error need as much or less.
int64_t linear_scratch_floats();
int64_t qkv_scratch_floats(int64_t D);
int64_t attention_scratch_floats(int64_t T, int64_t D);
int64_t cross_entropy_scratch_floats(int64_t Vp);

// out (O) fp32 = column sums of inp (N,O), plus out where `accumulate`. One task owns a block of
// columns and walks all rows in order. It needs linear_scratch_floats() or less.
void column_sums(const Context& context, const Tensor& out, const Tensor& inp, bool accumulate);

}  // namespace weft::cpu
