// The work of operations: what their descriptions (operation.h) have in common.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/operations/operation.h"

namespace weft {

inline double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor) sum += static_cast<double>(tensor.num_bytes());
  }
  return sum;
}

// Returns the bytes of sums that are written, and read before where they accumulate.
inline double sum_bytes(std::initializer_list<Tensor> sums, bool accumulate) {
  return (accumulate ? 2 : 1) * bytes_of(sums);
}

// In fp64, because 64 bits are too few for the FLOPs of large models.
inline double product(std::initializer_list<int64_t> factors) {
  double result = 1;
  for (const int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

// Describes an operation that moves rows of a tensor (N,C).
inline Operation rows_operation(const char* name, const Tensor& rows, double bytes) {
  return {.name = name,
          .dimensions = "N C",
          .sizes = {num_rows(rows), num_columns(rows)},
          .dtype = rows.dtype(),
          .bytes = bytes};
}

// Describes an operation over a flat range of n elements.
inline Operation flat_operation(const char* name, int64_t n, DType dtype, double bytes) {
  return {.name = name, .dimensions = "n", .sizes = {n}, .dtype = dtype, .bytes = bytes};
}

}  // namespace weft
