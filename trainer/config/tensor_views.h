// Views of parts of a tensor's memory, or of the same memory in another shape.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/numbers/tensor.h"

namespace weft {

// Returns the beginning of a tensor's memory as a tensor of its type and another shape.
inline Tensor view(const Tensor& tensor, std::initializer_list<int64_t> shape) {
  return {tensor.data(), tensor.dtype(), shape};
}

inline Tensor as_rows(const Tensor& tensor, int64_t num_columns) {
  return view(tensor, {tensor.num_elements() / num_columns, num_columns});
}

// Returns elements [first, first + count), as one dimension. Memory that is only planned, null,
// stays null.
inline Tensor range_of(const Tensor& tensor, int64_t first, int64_t count) {
  char* data = tensor.as<char>();
  if (data != nullptr) data += first * size_bytes(tensor.dtype());
  return {data, tensor.dtype(), {count}};
}

// Returns rows [first, first + count) of a tensor (N,C).
inline Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  const int64_t num_columns = tensor.num_elements() / tensor.shape(0);
  return as_rows(range_of(tensor, first * num_columns, count * num_columns), num_columns);
}

}  // namespace weft
