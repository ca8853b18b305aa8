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

#define WEFT_QKV_OPERATIONS(X) X(Rotary)
WEFT_QKV_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
