// Attention over all heads of a rank.
#pragma once

#include <cstdint>

#include "kernels/numbers/dropout.h"
#include "kernels/operations/operation.h"

namespace weft {

// This rank's heads among those of the whole model; total == 0 means that it has all.
struct Heads {
  int64_t first = 0, total = 0;
};

// Causal self-attention, never materialising the scores of a sequence [Dao 2023, arXiv:2307.08691]:
//   out = dropout(softmax(scale * q k^T + causal mask)) * v, per sample and head.
// With document_bounds a query sees the keys of its own document alone, up to itself. With slopes
// (ALiBi) its scores sink with the distance: scale * q k^T + slope * (key - query), per head; the
// distance is that of the tokens in their sample. [Press et al. 2022, arXiv:2108.12409]
// Dropout's elements are the bits of `kept` (kernels/numbers/dropout.h), and bit 0 of sample b and
// head h is element
//   first_element + (b * total + first + h) * 32 * attention_mask_words(T);
// first_element is a multiple of 128.
struct AttentionForward {
  Tensor out = {};  // (B,T,H,D) x, written
  Tensor lse = {};  // (B,H,T) fp32, written: the logarithm of the softmax's sum
  // (B,H,attention_mask_words(T)) int32, written: dropout's bits; empty where p == 0.
  Tensor kept = {};
  Tensor qkv = {};  // (B,T,H,3,D) x: query, key and value of each head, in Megatron's order
  // (B,T,2) int32, or empty: begin and end of the document of each token, as positions in its
  // sample. The document of token t is [begin, end), and begin <= t < end; the documents of a
  // sample follow each other without gaps.
  Tensor document_bounds = {};
  Tensor slopes = {};  // (H) fp32, or empty: those of this rank's heads
  float scale = 1.0F;
  Heads heads = {};
  Dropout dropout = {};
};

struct AttentionBackward {
  Tensor dqkv = {};                                // (B,T,H,3,D) x, written
  Tensor dout = {};                                // (B,T,H,D) x
  Tensor out = {}, lse = {}, kept = {}, qkv = {};  // forward's
  Tensor document_bounds = {}, slopes = {};        // forward's
  float scale = 1.0F;
  float dropout_p = 0.0F;  // forward's; the bits are in `kept`
  // (H*3*D) fp32, or empty: the gradient of a bias of queries, keys and values, which is the sum of
  // dqkv over B and T. A backend may add up numbers before they are rounded to x. That of keys is 0
  // exactly, on every backend: the gradients of a query's scores add up to 0, because softmax
  // ignores what all scores have in common.
  Tensor dqkv_bias = {};
  bool accumulate = true;  // of dqkv_bias
};

#define WEFT_ATTENTION_OPERATIONS(X) X(AttentionForward) X(AttentionBackward)
WEFT_ATTENTION_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
