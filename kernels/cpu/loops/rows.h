// Reads and stores rows of fp32, bf16 or fp16 tensors as fp32, because operations compute on floats
// only.
#pragma once

#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft::cpu {

// Converts n elements of a bf16, fp16 or fp8 tensor from `first` on.
void widen_row(float* out, const Tensor& tensor, int64_t first, int64_t n);
// Returns n elements from `first` on: the tensor's own memory when it is fp32, else `buffer` with
// the converted elements.
const float* read_row(const Tensor& tensor, int64_t first, int64_t n, float* buffer);
// Returns the place for computing elements from `first` on: the tensor's own memory when it is
// fp32, else `buffer`, which store_row then converts.
float* row_target(const Tensor& tensor, int64_t first, float* buffer);
void store_row(const Tensor& tensor, int64_t first, int64_t n, const float* values);

// out = a + b; out may be a or b.
void add_rows(float* out, const float* a, const float* b, int64_t n);
// values *= factors
void multiply_row(float* values, const float* factors, int64_t n);
// Returns the largest number, n >= 1. NaN is ignored.
float max_of_row(const float* values, int64_t n);

}  // namespace weft::cpu
