// The optimizer, over flat ranges of the parameters.
#pragma once

#include <cstdint>

#include "kernels/numbers/split_master.h"
#include "kernels/operations/operation.h"

namespace weft {

// clip[0] = norm = sqrt(sum_of_squares); clip[1] is the factor that clips, min(1, max_norm / (norm
// + 1e-6)), or 1 where max_norm == 0.
struct ClipCoefficient {
  Tensor clip = {};            // (2) fp32, written
  Tensor sum_of_squares = {};  // (1) fp32
  float max_norm = 0.0F;
};

// AdamW over one flat range [Loshchilov & Hutter 2019]. All tensors have n
// elements; n is a multiple of kOptimizerBlock.
struct AdamW {
  Tensor param;   // (n) x: the weights that the GEMMs read; written. fp32 models: same as `master`
  Tensor master;  // (n) fp32; empty for bf16 models
  Tensor remainder;  // bf16 models: what param lacks of its masters, uint8 (split_master.h)
  Tensor m, v;       // (n) fp32; or both bf16, which are rounded at random (moment_rounding.h)
  Tensor grad;       // (n) fp32
  Tensor decays;     // (n / kOptimizerBlock) uint8: 1 where weight decay applies
  Tensor clip;       // (2) fp32, from ClipCoefficient: gradients are multiplied by element 1
  // These are fp64, as in PyTorch, because 1 - 0.999F is off by 1e-5. Terms like 1 - beta are
  // formed in fp64 and then used as fp32.
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;  // 1 for the first update (bias correction)
  // For moments in bf16: the seed of the random numbers, and (n / kOptimizerBlock) int32, the
  // number of each block in the whole model.
  uint64_t seed = 0;
  Tensor block_numbers;
};

// param = master, rounded to bf16; remainder = what it lacks of it
// (kernels/numbers/split_master.h). The number of elements n is a multiple of kOptimizerBlock.
struct SplitMasters {
  Tensor param = {};      // (n) bf16, written
  Tensor remainder = {};  // remainder_bytes(n) uint8, written
  Tensor master = {};     // (n) fp32
};

// The inverse of SplitMasters.
struct JoinMasters {
  Tensor master = {};     // (n) fp32, written
  Tensor param = {};      // (n) bf16
  Tensor remainder = {};  // remainder_bytes(n) uint8
};

#define WEFT_OPTIMIZER_OPERATIONS(X) X(ClipCoefficient) X(AdamW) X(SplitMasters) X(JoinMasters)
WEFT_OPTIMIZER_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
