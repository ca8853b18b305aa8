// The factor by which fp16 training multiplies the loss. Gradients of activations below 2^-24
// vanish in fp16; multiplied with the loss they stay, and the optimizer divides by the factor
// again. A factor that makes a gradient infinite costs a step, which is skipped.
//
//   state = initial_loss_scale(options);
//   ... gradients of loss * state.scale ...
//   state = loss_scale_after(options, state, /*overflows=*/!all_gradients_are_finite);
//
// [Micikevicius et al. 2018, arXiv:1710.03740; Megatron-LM megatron/core/optimizer/grad_scaler.py]
#pragma once

#include <optional>

#include "trainer/step/training_state.h"

namespace weft {

struct LossScaleOptions {
  std::optional<double> constant =
      {};                         // never changes, and nothing below has a meaning; else dynamic
  double initial = 4294967296.0;  // 2^32
  double min = 1.0;
  int64_t window = 1000;   // steps in a row without an overflow, after which the factor doubles
  int64_t hysteresis = 2;  // overflows since the factor doubled, from which on each halves it
};

// Returns the state of a dynamic factor before the first step.
LossScaleState initial_loss_scale(const LossScaleOptions& options);

// Returns the state after a step. Overflows count up to the next doubling, in a row or not, so that
// the second one and all after it halve the factor, if hysteresis is 2.
LossScaleState loss_scale_after(const LossScaleOptions& options, LossScaleState state,
                                bool overflows);

// Returns whether an overflow would have to halve the factor, and it is at its minimum. DeepSpeed
// ends the run there.
bool is_exhausted(const LossScaleOptions& options, const LossScaleState& state);

}  // namespace weft
