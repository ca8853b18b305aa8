// The word embedding.
#pragma once

#include <cstdint>

#include "kernels/operations/operation.h"

namespace weft {

// out[n] = word[tokens[n] - first_word]. A token outside [first_word, first_word + rows of word)
// belongs to another rank and gives zeros.
struct EmbeddingForward {
  Tensor out = {};     // (B,T,C) x, written
  Tensor tokens = {};  // (B,T) int32
  Tensor word = {};    // (Vp/tp,C) x
  int64_t first_word = 0;
};

// Adds the rows of dout to dword, in order of position.
struct EmbeddingBackward {
  Tensor dword = {};   // (Vp/tp,C) fp32, accumulated
  Tensor dout = {};    // (B,T,C) x
  Tensor tokens = {};  // forward's
  int64_t first_word = 0;
};

#define WEFT_EMBEDDING_OPERATIONS(X) X(EmbeddingForward) X(EmbeddingBackward)
WEFT_EMBEDDING_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
