// Elements of tensors in host memory, as fp32: for checkpoints and checks.
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

// Loads `count` elements that lie `stride` apart, from element 0 on.
inline void load_elements(float* to, const void* data, DType dtype, int64_t stride, int64_t count) {
  assert(is_model_type(dtype));
  const char* from = static_cast<const char*>(data);
  const auto load = [&](auto value) {
    const auto step = stride * static_cast<int64_t>(sizeof value);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&value, from + i * step, sizeof value);
      to[i] = static_cast<float>(value);
    }
  };
  if (dtype == DType::kBFloat16) return load(BFloat16());
  if (dtype == DType::kFloat16) return load(Float16());
  load(0.0F);
}

// Stores neighbours, as store_element() does.
inline void store_elements(void* data, DType dtype, const float* values, int64_t count) {
  assert(is_model_type(dtype));
  char* to = static_cast<char*>(data);
  const auto store = [&](auto rounded) {
    for (int64_t i = 0; i < count; ++i) {
      rounded = decltype(rounded)(values[i]);
      std::memcpy(to + i * static_cast<int64_t>(sizeof rounded), &rounded, sizeof rounded);
    }
  };
  if (dtype == DType::kBFloat16) return store(BFloat16());
  if (dtype == DType::kFloat16) return store(Float16());
  store(0.0F);
}

// Converts elements that lie `from_stride` apart to neighbours of another type, or of the same.
inline void convert_elements(void* to, DType type, const void* from, DType from_type,
                             int64_t from_stride, int64_t count) {
  if (type == from_type && from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * size_bytes(type)));
    return;
  }
  constexpr int64_t kBlock = 512;
  float values[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t n = count - first < kBlock ? count - first : kBlock;
    load_elements(values,
                  static_cast<const char*>(from) + first * from_stride * size_bytes(from_type),
                  from_type, from_stride, n);
    store_elements(static_cast<char*>(to) + first * size_bytes(type), type, values, n);
  }
}

}  // namespace weft
