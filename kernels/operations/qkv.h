// Queries and keys before attention.
#pragma once

#include <cstdint>

#include "kernels/operations/operation.h"

namespace weft {

// Rotary positions, in place: of each query and key, P pairs of elements (a, b) become
//   (a cos - b sin, b cos + a sin)
// with cosine and sine of position and pair, or with the opposite angle where `inverse` (backward).
// The pairs are elements i and P + i, or 2i and 2i + 1 where `interleaved`; elements from 2P on
// stay. [Su et al. 2021, arXiv:2104.09864]
struct Rotary {
  Tensor qkv = {};     // (B,T,G,R+2,D) x: of each group R queries, a key and a value
  Tensor angles = {};  // (S,2,P) fp32: cosines and sines of the positions 0 ... S-1
  // The position of token 0, first + T <= S. With `offset`, (1) int32, it is so much further, and
  // the caller sees to it that there are angles and bounds.
  int64_t first_position = 0;
  Tensor offset = {};
  // (B,first_position+T or more,2), as in Attention, or empty; if it is given, positions count from
  // the begin of the token's document.
  Tensor document_bounds = {};
  bool interleaved = false, inverse = false;
};

// The weights of a norm of queries and of one of keys, or their gradients. An RMSNorm has no
// biases.
struct QkNormWeights {
  Tensor q = {}, k = {};            // (D)
  Tensor q_bias = {}, k_bias = {};  // (D), or empty
};

// LayerNorm or RMSNorm of each query and key over its D elements, in place, as
// ResidualNormForward's. [Henry et al. 2020, arXiv:2010.04245; Dehghani et al. 2023,
// arXiv:2302.05442]
struct QkNormForward {
  Tensor qkv = {};             // (B,T,G,R+2,D) x
  Tensor kept = {};            // (B,T,G,R+1,D) x, written: queries and keys as they were; or empty
  QkNormWeights weights = {};  // x
  float weight_offset = 0.0F;  // is added to q and k
  float epsilon = 1e-5F;
};

// The backward of QkNormForward: turns the gradients of its outputs into those of its inputs.
struct QkNormBackward {
  Tensor dqkv = {};              // (B,T,G,R+2,D) x
  Tensor kept = {};              // forward's
  QkNormWeights gradients = {};  // fp32
  QkNormWeights weights = {};    // forward's
  float weight_offset = 0.0F;    // forward's
  float epsilon = 1e-5F;         // forward's
  bool accumulate = true;        // adds to `gradients`
};

#define WEFT_QKV_OPERATIONS(X) X(Rotary) X(QkNormForward) X(QkNormBackward)
WEFT_QKV_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
