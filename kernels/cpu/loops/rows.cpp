#include "kernels/cpu/loops/rows.h"

#include <array>
#include <bit>
#include <cstring>

#include "kernels/cpu/loops/simd.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float16.h"
#include "kernels/numbers/float8.h"

namespace weft::cpu {

namespace {

// The numbers of an fp8 format by their bits.
struct Float8Table {
  explicit Float8Table(DType dtype) {
    for (size_t bits = 0; bits < values.size(); ++bits)
      values[bits] = from_float8(static_cast<uint8_t>(bits), dtype);
  }
  std::array<float, 256> values = {};
};

WEFT_VECTOR_CLONES void widen(float* out, const BFloat16* inp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(inp[i].bits) << 16);
  }
}

// Converts like BFloat16(float), in a form without branches that the compiler can vectorise.
WEFT_VECTOR_CLONES void narrow(BFloat16* out, const float* inp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t word = std::bit_cast<uint32_t>(inp[i]);
    const uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
    const uint32_t quiet_nan = (word >> 16) | 0x40U;
    out[i].bits = static_cast<uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
  }
}

WEFT_VECTOR_CLONES void widen(float* out, const Float16* inp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(inp[i]);
}

WEFT_VECTOR_CLONES void narrow(Float16* out, const float* inp, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i].bits = Float16(inp[i]).bits;
}

void widen(float* out, const uint8_t* inp, int64_t n, DType dtype) {
  static const Float8Table e4m3(DType::kFloat8E4M3), e5m2(DType::kFloat8E5M2);
  const Float8Table& table = dtype == DType::kFloat8E4M3 ? e4m3 : e5m2;
  for (int64_t i = 0; i < n; ++i) out[i] = table.values[inp[i]];
}

}  // namespace

void widen_row(float* out, const Tensor& tensor, int64_t first, int64_t n) {
  if (is_float8(tensor.dtype())) {
    widen(out, tensor.as<uint8_t>() + first, n, tensor.dtype());
  } else if (tensor.dtype() == DType::kBFloat16) {
    widen(out, tensor.as<BFloat16>() + first, n);
  } else {
    widen(out, tensor.as<Float16>() + first, n);
  }
}

const float* read_row(const Tensor& tensor, int64_t first, int64_t n, float* buffer) {
  if (tensor.dtype() == DType::kFloat32) return tensor.as<float>() + first;
  widen_row(buffer, tensor, first, n);
  return buffer;
}

float* row_target(const Tensor& tensor, int64_t first, float* buffer) {
  return tensor.dtype() == DType::kFloat32 ? tensor.as<float>() + first : buffer;
}

void store_row(const Tensor& tensor, int64_t first, int64_t n, const float* values) {
  if (tensor.dtype() == DType::kBFloat16) {
    narrow(tensor.as<BFloat16>() + first, values, n);
  } else if (tensor.dtype() == DType::kFloat16) {
    narrow(tensor.as<Float16>() + first, values, n);
  } else if (values != tensor.as<float>() + first) {
    std::memcpy(tensor.as<float>() + first, values, static_cast<size_t>(n) * sizeof(float));
  }
}

WEFT_VECTOR_CLONES void add_rows(float* out, const float* a, const float* b, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

WEFT_VECTOR_CLONES void multiply_row(float* values, const float* factors, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] *= factors[i];
}

WEFT_VECTOR_CLONES float max_of_row(const float* values, int64_t n) {
  float max = values[0];
#pragma omp simd reduction(max : max)
  for (int64_t i = 0; i < n; ++i) max = values[i] > max ? values[i] : max;
  return max;
}

}  // namespace weft::cpu
