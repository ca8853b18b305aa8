// Activations are functions of what is stored, so backward can compute them again to the bit.
#pragma once

#include <cstdint>

#include "kernels/numbers/philox.h"
#include "kernels/operations/operation.h"

namespace weft {

// The activation of a layer that is not gated: GELU with tanh or by erf, max(x, 0), or the square
// of that. [Hendrycks & Gimpel 2016, arXiv:1606.08415; So et al. 2021, arXiv:2109.08668]
enum class Activation { kGeluTanh, kGeluErf, kRelu, kSquaredRelu };

WEFT_HOST_DEVICE constexpr bool is_gelu(Activation activation) {
  return activation == Activation::kGeluTanh || activation == Activation::kGeluErf;
}

// Gated linear units: act(gate) * up, where act(x) is x sigmoid(x), x Phi(x) (GELU by erf), max(x,
// 0) or x. [Shazeer 2020, arXiv:2002.05202]
enum class Glu { kNone, kSwiglu, kGeglu, kReglu, kLiglu };

// out = activation(pre).
struct ActivationForward {
  Tensor out = {};  // (N,F) x, written
  Tensor pre = {};  // (N,F) x
  Activation activation = Activation::kGeluTanh;
};

// out = act(gate) * up, where the columns of pre are [gate, up].
struct GluForward {
  Tensor out = {};  // (N,F) x, written
  Tensor pre = {};  // (N,2F) x
  Glu glu = Glu::kSwiglu;
};

// dpre = the gradients of gate and up.
struct GluBackward {
  Tensor dpre = {};  // (N,2F) x, written
  Tensor dout = {};  // (N,F) x
  Tensor pre = {};   // forward's
  Glu glu = Glu::kSwiglu;
};

#define WEFT_ACTIVATION_OPERATIONS(X) X(ActivationForward) X(GluForward) X(GluBackward)
WEFT_ACTIVATION_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
