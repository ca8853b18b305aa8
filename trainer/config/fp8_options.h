// Products of the transformer layers in fp8, as Megatron's flags name it.
// [Micikevicius et al. 2022, arXiv:2209.05433; TransformerEngine, documentation of its recipes]
#pragma once

#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft {

struct Fp8Options {
  // Inputs and weights are e4m3. Gradients are e5m2 (hybrid), which reaches farther, or e4m3.
  DType gradients = DType::kFloat8E5M2;
  // A tensor's scale follows from its own largest number (tensorwise); or from those of the last
  // amax_history_len steps, the last or the largest of them (delayed).
  bool is_delayed = true;
  int64_t margin = 0;  // delayed: the largest number becomes the format's largest over 2^margin
  int64_t amax_history_len = 1;
  bool uses_maximum = false;
  bool has_weight_gradients = true;  // else these products are bf16's
  bool measures_errors = false;      // plans memory for bf16 products beside those of fp8
};

// Products sum over each of their sizes in one direction or another, and in fp8 cuBLASLt takes
// multiples of 16.
constexpr int64_t kFp8SizeMultiple = 16;

}  // namespace weft
