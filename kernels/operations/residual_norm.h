// The residual stream: a branch is added to it, and it is normalised.
#pragma once

#include <cstdint>

#include "kernels/numbers/dropout.h"
#include "kernels/operations/operation.h"

namespace weft {

// An output in fp8, beside the one in x or instead of it: the numbers as they are stored in x,
// rounded as Quantize (kernels/operations/fp8.h) rounds them, with a scale that is there before.
struct Fp8Output {
  Tensor rows = {};     // (N,C) e4m3, written
  Tensor scaling = {};  // (2) fp32, read: Quantize's
  Tensor amax = {};     // (1) fp32, or empty: becomes the maximum of itself and all |value|
};

// The residual stream's one operation:
//   residual_out = residual + dropout(branch + branch_bias)
//   normed       = LayerNorm(residual_out) = (residual_out - mean) * rstd * w + bias
// where w = weight + weight_offset (1 where weights are stored less 1).
// Without `bias` it is RMSNorm, which takes no mean: residual_out * rstd * w, where rstd is
// 1 / sqrt(mean of the squares + epsilon), and `mean` is empty. [Zhang & Sennrich 2019,
// arXiv:1910.07467]
// Without `residual` the sum begins with the branch (the embedding). Without `branch` residual_out
// is empty and `residual` itself is normalised. Without `weight` there is the sum alone, and
// normed, mean, rstd and bias are empty (the end of a pipeline stage). Under tensor parallelism the
// branch is already summed over ranks, so that its bias counts once. [Ba et al. 2016,
// arXiv:1607.06450]
struct ResidualNormForward {
  Tensor normed = {};           // (N,C) x, written; may be empty where there is normed_fp8
  Fp8Output normed_fp8 = {};    // or empty; on CUDA x is bf16
  Tensor residual_out = {};     // (N,C) r, written; it may be residual's memory
  Tensor mean = {}, rstd = {};  // (N) fp32, written
  Tensor residual = {};         // (N,C) r
  Tensor branch = {};           // (N,C) x
  // (C) x; or (S,C) x with S >= bias_period, of which row n gets (first_row + n) % bias_period: the
  // position embedding.
  Tensor branch_bias = {};
  int64_t bias_period = 1, first_row = 0;
  // (B,T,2) int32 with T == bias_period, as in Attention. If it is given, positions count from the
  // beginning of a document: row n gets the bias of (first_row + n) % bias_period - begin.
  Tensor document_bounds = {};
  Tensor weight = {}, bias = {};  // (C) x
  float weight_offset = 0.0F;
  float epsilon = 1e-5F;
  Dropout dropout = {};
};

// The backward of ResidualNormForward. With g, the gradient of dnormed through the norm:
//   dresidual    = g + dresidual_in     gradient of residual_out
//   dbranch      = dropout'(dresidual)  empty where there is no branch; it may be where p == 0 and
//                                       r is x, and dresidual is the branch's gradient then
//   dbranch_bias = sums of the stored rows of the branch's gradient; empty where there is no bias
// For an RMSNorm mean and dbias are empty. Without `weight` (the sum alone) g is 0, and dnormed,
// residual, mean, rstd, dweight and dbias are empty. dresidual may be the memory of dresidual_in.
struct ResidualNormBackward {
  Tensor dresidual = {};            // (N,C) r, assigned
  Tensor dbranch = {};              // (N,C) x, assigned
  Tensor dbranch_bias = {};         // shaped like branch_bias, fp32
  Tensor dweight = {}, dbias = {};  // (C) fp32
  Tensor dnormed = {};              // (N,C) x
  Tensor dresidual_in = {};         // (N,C) r; may be empty where there is a weight
  Tensor residual = {};             // (N,C) r: what was normalised, forward's residual_out
  Tensor mean = {}, rstd = {};      // (N) fp32
  Tensor weight = {};               // (C) x
  float weight_offset = 0.0F;       // forward's
  int64_t bias_period = 1, first_row = 0;
  Tensor document_bounds = {};  // forward's
  Dropout dropout = {};
  bool accumulate = true;  // adds to dbranch_bias, dweight and dbias
};

#define WEFT_RESIDUAL_NORM_OPERATIONS(X) X(ResidualNormForward) X(ResidualNormBackward)
WEFT_RESIDUAL_NORM_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
