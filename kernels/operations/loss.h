// The loss and its gradient.
#pragma once

#include <cstdint>

#include "kernels/operations/operation.h"

namespace weft {

// losses[n] = (logsumexp(logits[n, :V]) - logits[n, targets[n]]) * loss_mask[n], where V is
// vocabulary_size: columns from V to Vp - 1 are left out of the sum and get gradient 0. With
// `writes_gradient` the logits are replaced by d(sum of losses * gradient_scale)/d(logits).
struct CrossEntropy {
  Tensor losses = {};     // (N) fp32, written
  Tensor logits = {};     // (N,Vp) x
  Tensor targets = {};    // (N) int32
  Tensor loss_mask = {};  // (N) fp32, or empty: all ones
  int64_t vocabulary_size = 0;
  float gradient_scale = 1.0F;
  bool writes_gradient = false;
};

// The same over a vocabulary that is sharded over R ranks takes two operations around one
// all-gather of the statistics. The columns of logits are the words from first_word on; words from
// vocabulary_size on are left out. The statistics of a row are the largest logit, the sum of
// exponentials relative to it, and the target's logit (0 where another rank has it).
struct CrossEntropyStatistics {
  Tensor statistics = {};  // (N,3) fp32, written
  Tensor logits = {};      // (N,Vp/R) x
  Tensor targets = {};     // (N) int32
  int64_t first_word = 0, vocabulary_size = 0;
};

// Every rank gets all losses. With `writes_gradient` the logits are replaced by their gradients.
struct CrossEntropyGradient {
  Tensor losses = {};      // (N) fp32, written
  Tensor logits = {};      // (N,Vp/R) x
  Tensor statistics = {};  // (R,N,3) fp32: those of all ranks
  Tensor targets = {};     // (N) int32
  Tensor loss_mask = {};   // (N) fp32, or empty: all ones
  int64_t first_word = 0, vocabulary_size = 0;
  float gradient_scale = 1.0F;
  bool writes_gradient = false;
};

// out[b] = sum of losses[b, :] / sum of loss_mask[b, :]: the mean loss of each sample over its
// unmasked tokens, and 0 for a sample whose tokens are all masked. The order of the sums is fixed.
struct SampleLosses {
  Tensor out = {};        // (B) fp32, written
  Tensor losses = {};     // (B,T) fp32, as CrossEntropy leaves them
  Tensor loss_mask = {};  // (B,T) fp32, or empty: all ones
};

#define WEFT_LOSS_OPERATIONS(X) \
  X(CrossEntropy) X(CrossEntropyStatistics) X(CrossEntropyGradient) X(SampleLosses)
WEFT_LOSS_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
