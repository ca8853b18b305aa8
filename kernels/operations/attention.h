// Attention over all heads of a rank.
#pragma once

#include <cstdint>

#include "kernels/numbers/dropout.h"
#include "kernels/numbers/head_vectors.h"
#include "kernels/operations/operation.h"

namespace weft {

// This rank's heads among those of the whole model; total == 0 means that it has all.
struct Heads {
  int64_t first = 0, total = 0;
};

// Queries (B,Tq,H,D), and keys and values (B,Tk,G,D) that H/G neighbouring queries share
// [Ainslie et al. 2023, arXiv:2305.13245]; or their gradients. Values lie like keys, in any memory.
struct Qkv {
  HeadVectors q = {}, k = {}, v = {};

  Qkv() = default;
  Qkv(const HeadVectors& queries, const HeadVectors& keys, const HeadVectors& values)
      : q(queries), k(keys), v(values) {}
  // Those of a tensor (B,T,G,R+2,D), in which R queries, their key and their value follow each
  // other, in Megatron's order. Throws std::invalid_argument for other tensors.
  Qkv(const Tensor& packed);  // NOLINT(google-explicit-constructor)
  bool operator==(const Qkv&) const = default;
};

// Returns the tensor (B,T,H,3,D) whose vectors these are, or an empty one.
Tensor packed_tensor(const Qkv& qkv);

// Causal attention, never materialising the scores of a sequence [Dao 2023, arXiv:2307.08691]:
//   out = dropout(softmax(scale * q k^T + causal mask)) * v, per sample and head.
//
// Query i stands at the position first_query + i of the sample and sees the keys 0 ... first_query
// + i. So training has first_query = 0 and Tq = Tk, and queries that come later, after a cache of
// keys or on another rank, have first_query = Tk - Tq or less:
//
//   keys        0  1  2  3  4  5  6  7     Tk = 8
//   query 0     x  x  x  x  x  .  .  .     Tq = 3, first_query = 4
//   query 1     x  x  x  x  x  x  .  .
//   query 2     x  x  x  x  x  x  x  .
//
// With `offset`, which the device reads, queries stand so much further, and the caller sees to it
// that there are keys. CUDA takes one query then, of up to 512 numbers, and no dropout.
//
// With document_bounds a query sees the keys of its own document alone, up to itself. With slopes
// (ALiBi) its scores sink with the distance: scale * q k^T + slope * (key - query), per head; the
// distance is that of the tokens in their sample. [Press et al. 2022, arXiv:2108.12409]
// Dropout's elements are the bits of dropout_mask (kernels/numbers/dropout.h), which belong to
// positions, and bit 0 of sample b and head h is element
//   first_element + (b * total + first + h) * 32 * attention_mask_words(Tk);
// first_element is a multiple of 128, and with dropout first_query is one of 64.
struct AttentionForward {
  Tensor out = {};  // (B,Tq,H,D) x, written
  Tensor lse = {};  // (B,H,Tq) fp32, written: the logarithm of the softmax's sum
  // (B,H,attention_mask_words(Tk)) int32, written: dropout's bits; empty where p == 0.
  Tensor dropout_mask = {};
  Qkv qkv = {};  // x
  int64_t first_query = 0;
  Tensor offset = {};  // (1) int32, or empty: 0
  // (B,Tk,2) int32, or empty: begin and end of the document of each token, as positions in its
  // sample. The document of token t is [begin, end), and begin <= t < end; the documents of a
  // sample follow each other without gaps.
  Tensor document_bounds = {};
  Tensor slopes = {};  // (H) fp32, or empty: those of this rank's heads
  float scale = 1.0F;
  Heads heads = {};
  Dropout dropout = {};
};

// The backward of AttentionForward. The gradients of a key and of a value are the sums of those of
// each query head, rounded to x, in the order of the heads. CUDA takes Tq = Tk alone.
struct AttentionBackward {
  Qkv dqkv = {};                                 // as qkv, but anywhere else in memory: x, written
  Tensor dout = {};                              // (B,Tq,H,D) x
  Tensor out = {}, lse = {}, dropout_mask = {};  // forward's
  Qkv qkv = {};                                  // forward's
  int64_t first_query = 0;                       // forward's
  Tensor document_bounds = {}, slopes = {};      // forward's
  float scale = 1.0F;
  float dropout_p = 0.0F;  // forward's; the bits are in dropout_mask
  // (H*3*D) fp32, or empty: the gradient of a bias of queries, keys and values, which is the sum of
  // dqkv over B and T; dqkv is packed then, without groups. A backend may add up numbers before
  // they are rounded to x. That of keys is 0 exactly, on every backend: the gradients of a query's
  // scores add up to 0, because softmax ignores what all scores have in common.
  Tensor dqkv_bias = {};
  bool accumulate = true;  // adds to dqkv_bias
};

#define WEFT_ATTENTION_OPERATIONS(X) X(AttentionForward) X(AttentionBackward)
WEFT_ATTENTION_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
