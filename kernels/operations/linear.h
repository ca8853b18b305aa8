// Linear layers. A weight is (O,I), as Megatron stores it; rows of inputs and outputs are N = B*T.
#pragma once

#include <cstdint>

#include "kernels/operations/activation.h"
#include "kernels/operations/operation.h"

namespace weft {

// out = inp * weight^T + bias.
struct LinearForward {
  Tensor out = {};     // (N,O) x, written
  Tensor inp = {};     // (N,I) x
  Tensor weight = {};  // (O,I) x
  Tensor bias = {};    // (O) x, or empty
  bool operator==(const LinearForward&) const = default;
};

// dinp = dout * weight.
struct LinearBackwardInput {
  Tensor dinp = {};    // (N,I) x, written
  Tensor dout = {};    // (N,O) x
  Tensor weight = {};  // (O,I) x
  bool operator==(const LinearBackwardInput&) const = default;
};

// dweight += dout^T * inp, and dbias += column sums of dout.
struct LinearBackwardWeight {
  Tensor dweight = {};  // (O,I) fp32
  Tensor dbias = {};    // (O) fp32, or empty
  Tensor dout = {};     // (N,O) x
  Tensor inp = {};      // (N,I) x
  bool accumulate = true;
  bool operator==(const LinearBackwardWeight&) const = default;
};

// pre = inp * weight^T + bias, and out = activation(pre) with the bits of ActivationForward: fc1
// and its activation.
struct LinearActivationForward {
  Tensor out = {}, pre = {};  // (N,O) x, written
  Tensor inp = {};            // (N,I) x
  Tensor weight = {};         // (O,I) x
  Tensor bias = {};           // (O) x, or empty
  Activation activation = Activation::kGeluTanh;
  bool operator==(const LinearActivationForward&) const = default;
};

// dpre = (dout * weight) * activation'(pre): the backward of fc2 into fc1's output. dbias += column
// sums of dpre, before or after its rounding.
struct LinearActivationBackwardInput {
  Tensor dpre = {};    // (N,I) x, written
  Tensor dbias = {};   // (I) fp32, or empty
  Tensor dout = {};    // (N,O) x
  Tensor weight = {};  // (O,I) x
  Tensor pre = {};     // (N,I) x
  Activation activation = Activation::kGeluTanh;
  bool accumulate = true;  // adds to dbias
  bool operator==(const LinearActivationBackwardInput&) const = default;
};

#define WEFT_LINEAR_OPERATIONS(X) \
  X(LinearForward)                \
  X(LinearBackwardInput)          \
  X(LinearBackwardWeight) X(LinearActivationForward) X(LinearActivationBackwardInput)
WEFT_LINEAR_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
