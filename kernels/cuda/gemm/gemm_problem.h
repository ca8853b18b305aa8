// A matrix product in BLAS's terms.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/numbers/tensor.h"

namespace weft::cuda {

enum class Epilogue : uint8_t {
  kNone,
  kBias,          // D += bias (m), of the output's type
  kDGelu,         // D *= gelu_tanh'(aux)
  kBiasGradient,  // bias (n), fp32 = sums of B's columns over k
};

// Where the matrices of a batch of equal products lie, in elements of their types: columns `ld`
// apart, and the matrices of one product after those of the one before `stride` apart.
struct GemmBatch {
  int64_t count = 0;  // 0: one product, whose columns have no padding
  int64_t lda = 0, stride_a = 0, ldb = 0, stride_b = 0, ldd = 0, stride_d = 0;
  bool operator==(const GemmBatch&) const = default;
};

// D (m,n) = op(A) (m,k) * op(B) (k,n), column-major as in BLAS. With `accumulate`, which needs an
// fp32 D, the product is added to D. A product of fp8 operands is multiplied with their scales,
// which are numbers on the device.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType inputs = DType::kFloat32, output = DType::kFloat32;
  std::optional<DType> b_input = {};  // the type of B where it is not `inputs`; fp8 only
  bool sums_fast = false;             // fp8: adds up in fewer digits than fp32 has
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;
  GemmBatch batch = {};
  bool operator==(const GemmProblem&) const = default;
};

struct GemmOperands {
  void* d = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  void* bias = nullptr;                                // written by kBiasGradient only
  void* aux = nullptr;                                 // (m,n)
  const float *a_scale = nullptr, *b_scale = nullptr;  // null unless operands are fp8
  float alpha = 1;                                     // D = alpha * op(A) * op(B)
  const void* c = nullptr;  // lies as D does; where it is given, beta * C is added
  float beta = 0;
};

}  // namespace weft::cuda
