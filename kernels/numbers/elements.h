// Single elements of tensors in host memory, as fp32: for checkpoints and checks, which convert
// few.
#pragma once

#include <cassert>
#include <cstring>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float16.h"
#include "kernels/numbers/tensor.h"

namespace weft {

// Returns element `idx` of `data`, whose elements have the model's type `dtype`. `data` need not be
// aligned.
inline float load_element(const void* data, DType dtype, int64_t idx) {
  assert(is_model_type(dtype));
  const char* from = static_cast<const char*>(data) + idx * size_bytes(dtype);
  const auto load = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return static_cast<float>(value);
  };
  if (dtype == DType::kBFloat16) return load(BFloat16());
  if (dtype == DType::kFloat16) return load(Float16());
  return load(0.0F);
}

// Stores `value`, rounded to the nearest number of the type.
inline void store_element(void* data, DType dtype, int64_t idx, float value) {
  assert(is_model_type(dtype));
  char* to = static_cast<char*>(data) + idx * size_bytes(dtype);
  const auto store = [&](auto rounded) { std::memcpy(to, &rounded, sizeof rounded); };
  if (dtype == DType::kBFloat16) return store(BFloat16(value));
  if (dtype == DType::kFloat16) return store(Float16(value));
  store(value);
}

}  // namespace weft
