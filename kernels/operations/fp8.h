// Linear layers in fp8. On CUDA sizes are multiples of 16.
#pragma once

#include <cstdint>

#include "kernels/operations/activation.h"
#include "kernels/operations/operation.h"

namespace weft {

// Turns numbers into fp8: value * scale, rounded to the nearest number of the format, where
//   value = inp,  act(pre) without `inp`,  or inp * act'(pre) with both, of the activation.
// What is too large becomes the format's largest number. An infinite value becomes NaN, so that it
// is found in what follows. Products read an operand by rows of the dimension that they sum over,
// so forward needs other copies than backward. [Micikevicius et al. 2022, arXiv:2209.05433]
struct Quantize {
  Tensor rows = {}, transposed = {};  // (N,C), (C,N) fp8 of one format, written; one may be empty
  Tensor value = {};                  // (N,C) x, or empty; written; may be inp's memory
  Tensor column_sums = {};            // (C) fp32, or empty: sums of value over rows
  bool accumulate = true;             // adds to column_sums
  // (2) fp32: 1 / scale, which products multiply with, and the scale. On CUDA it is 16-byte
  // aligned.
  Tensor scaling = {};
  // True: the scale is derived from the largest |value| (fp8_scale) and written to `scaling`.
  bool derives_scale = false;
  Tensor amax = {};           // (1) fp32, or empty: becomes the maximum of itself and all |value|
  Tensor inp = {}, pre = {};  // (N,C) x
  Activation activation = Activation::kGeluTanh;
};

// Transposes what is in fp8.
struct TransposeFp8 {
  Tensor transposed = {};  // (C,N), written
  Tensor rows = {};        // (N,C)
};

// out (M,N) = a (M,K) * b (N,K)^T, times both inverse scales, plus bias. This is all products of a
// linear layer: forward takes inp and weight, the gradient of inp dout and the transposed weight,
// that of the weight the transposed dout and the transposed inp.
struct Fp8Product {
  Tensor out = {};                        // (M,N) x, or fp32 where it may accumulate
  Tensor a = {}, b = {};                  // fp8, at most one of them e5m2
  Tensor a_scaling = {}, b_scaling = {};  // (2) fp32, Quantize's
  Tensor bias = {};                       // (N) x, or empty
  bool accumulate = false;
  // A GPU may add up products in fewer digits than fp32 has.
  bool sums_fast = false;
  bool operator==(const Fp8Product&) const = default;
};

// Delayed scaling: derives each tensor's next scale from its last amaxes. A row of `states` is {1 /
// scale, scale, history of amaxes}, perhaps with padding; amaxes[i] is written to place `slot` of
// the history and becomes 0. The scale follows (fp8_scale) from that amax or, with `uses_maximum`,
// from the largest in the history, and stays where that is 0. An amax that is not finite counts as
// 0. [TransformerEngine, DelayedScaling recipe]
struct UpdateFp8Scaling {
  Tensor states = {};  // (n,R) fp32, R >= 2 + history_len
  int64_t history_len = 1;
  Tensor amaxes = {};  // (n) fp32
  DType format = DType::kFloat8E4M3;
  int64_t slot = 0;
  int64_t margin = 0;
  bool uses_maximum = false;
};

#define WEFT_FP8_OPERATIONS(X) X(Quantize) X(TransposeFp8) X(Fp8Product) X(UpdateFp8Scaling)
WEFT_FP8_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
