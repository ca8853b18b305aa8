// Rows of fp32 or bf16 tensors as fp32: operations compute on floats only.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/tensor.h"

namespace weft::cpu {

void widen(float* out, const BFloat16* inp, int64_t n);
void narrow(BFloat16* out, const float* inp, int64_t n);

// n elements from `first` on: the tensor's own memory when it is fp32, else converted into
// `buffer`.
const float* read_row(const Tensor& tensor, int64_t first, int64_t n, float* buffer);
// Where to compute n elements from `first` on: in place when fp32, else in `buffer`, which
// store_row then converts.
float* row_target(const Tensor& tensor, int64_t first, float* buffer);
void store_row(const Tensor& tensor, int64_t first, int64_t n, const float* values);

}  // namespace weft::cpu
