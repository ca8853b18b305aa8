// Sums of flat ranges, each in a fixed order.
#pragma once

#include <cstdint>

#include "kernels/operations/operation.h"

namespace weft {

// out = scale * sum of inp, plus out where `accumulate`.
struct Sum {
  Tensor out = {};  // (1) fp32
  Tensor inp = {};  // (N) fp32
  float scale = 1.0F;
  bool accumulate = false;
};

// out = sum of squares of inp.
struct SumOfSquares {
  Tensor out = {};  // (1) fp32, written
  Tensor inp = {};  // (n) fp32
};

// The distance of a product from another one of the same operands: out = {sum of (value -
// reference)^2, sum of reference^2}, plus out where `accumulate`.
struct SquaredError {
  Tensor out = {};                    // (2) fp32
  Tensor value = {}, reference = {};  // x, of one shape
  bool accumulate = false;
};

#define WEFT_REDUCTION_OPERATIONS(X) X(Sum) X(SumOfSquares) X(SquaredError)
WEFT_REDUCTION_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
