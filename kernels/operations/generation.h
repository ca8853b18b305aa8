// Text out of a model: keys and values that later tokens see, and the choice of the next token.
#pragma once

#include <cstdint>

#include "kernels/operations/operation.h"

namespace weft {

// Keeps the keys and values of T tokens for later ones, as tokens [first_position, first_position +
// T) of the cache. With `offset` they are so many tokens further, and the caller sees to it that
// they are in the cache.
struct KeepKeys {
  Tensor keys = {}, values = {};  // (B,S,G,D) x, written at those tokens
  Tensor qkv = {};                // (B,T,G,R+2,D) x, as in Rotary
  int64_t first_position = 0;
  Tensor offset = {};  // (1) int32, or empty: 0
};

// Chooses a token for each row of logits. With temperature 0 it is the one with the largest logit,
// of several the first one. Otherwise token v has the weight
//   floor(2^40 * exp((logit[v] - largest) / temperature)),
// or 0 if it is not among the top_k largest logits, or if the weights of larger logits, of those
// that are left, add up to top_p of all or more. Tokens with the logit of the last one that stays,
// stay as well. A random number u in [0, 1) chooses the first token whose weight and those of the
// tokens before it add up to more than u of all. Sums of integers are exact in every order, so the
// choice does not depend on it.
//
// u of row n is word `counter` of Philox (philox.h) with the key `seed` and the stream
// `streams[n]`, divided by 2^32: a row does not depend on what is beside it. The word is `offset`
// further, if that is given.
struct SampleTokens {
  Tensor tokens = {};           // (N) int32, written
  Tensor logits = {};           // (N,Vp) x
  Tensor streams = {};          // (N) int32; read where temperature > 0
  int64_t vocabulary_size = 0;  // columns from here on are no tokens
  float temperature = 0.0F;
  int64_t top_k = 0;   // 0: all
  float top_p = 1.0F;  // in (0, 1]
  uint64_t seed = 0;
  int64_t counter = 0;
  Tensor offset = {};  // (1) int32, or empty: 0
};

#define WEFT_GENERATION_OPERATIONS(X) X(KeepKeys) X(SampleTokens)
WEFT_GENERATION_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
