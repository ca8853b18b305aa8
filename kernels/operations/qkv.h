// Queries, keys and values before attention.
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
  Tensor angles = {};  // (S,2,P) fp32: cosines and sines of the positions 0 ... S-1; S >= T
  Tensor document_bounds = {};  // as in Attention; if it is given, positions count from its begin
  bool interleaved = false, inverse = false;
};

// Queries in groups of R share a key and a value [Ainslie et al. 2023, arXiv:2305.13245].
// `expanded` gets each query with the key and value of its group, in the layout of
// AttentionForward.
struct ExpandGroups {
  Tensor expanded = {};  // (B,T,G*R,3,D) x, written
  Tensor grouped = {};   // (B,T,G,R+2,D) x
};

// The backward of ExpandGroups: `grouped` gets the gradients in `expanded`, where those of keys and
// values are summed over the queries of the group, in order.
struct SumGroups {
  Tensor grouped = {};   // (B,T,G,R+2,D) x, written
  Tensor expanded = {};  // (B,T,G*R,3,D) x
};

#define WEFT_QKV_OPERATIONS(X) X(Rotary) X(ExpandGroups) X(SumGroups)
WEFT_QKV_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
