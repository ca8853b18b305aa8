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

// What became of a step, for the log.
struct StepOutcome {
  bool skipped = false;          // the update was left out: weights and optimizer are as before
  double loss_scale = 1;         // the factor of the next step's loss
  int64_t bad_steps_in_row = 0;  // steps up to this one whose numbers end a run, unless tolerated
};

// Decides by its numbers whether a step updates the weights.
class StepJudge {
 public:
  StepJudge(const std::optional<LossScaleOptions>& options, bool skips_bad_steps)
      : options_(options), skips_bad_steps_(skips_bad_steps) {}

  // Each step waits for its numbers before the update.
  bool may_skip_steps() const { return options_ || skips_bad_steps_; }
  // The factor of the next step's loss; 1 where there is none.
  double loss_scale(const ScalarState& scalars) const;
  // A run begins with these counters, or goes on: the dynamic factor begins anew where they have
  // none.
  void begin(ScalarState& scalars) const;
  // Returns what becomes of a step with this gradient norm and loss, counts it, and moves the
  // factor. An overflow that lowers it is no bad step: the next one may be good.
  // [Megatron-LM megatron/core/optimizer/optimizer.py, MixedPrecisionOptimizer.prepare_grads]
  StepOutcome judge(float norm, float loss, ScalarState& scalars) const;

 private:
  const std::optional<LossScaleOptions> options_;
  const bool skips_bad_steps_;
};

}  // namespace weft
