#include "trainer/step/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

constexpr double kGrowth = 2.0, kBackoff = 0.5;
// Megatron's factor is an fp32 number. Beyond this one it would be infinite, and stay so.
constexpr double kMax = 0x1p127;

}  // namespace

LossScaleState initial_loss_scale(const LossScaleOptions& options) {
  return {.scale = options.initial, .growth_tracker = 0, .hysteresis_tracker = options.hysteresis};
}

LossScaleState loss_scale_after(const LossScaleOptions& options, LossScaleState state,
                                bool overflows) {
  if (overflows) {
    state.growth_tracker = 0;
    state.hysteresis_tracker -= 1;
    if (state.hysteresis_tracker <= 0) state.scale = std::max(state.scale * kBackoff, options.min);
    return state;
  }
  state.growth_tracker += 1;
  // A run may resume with a shorter window than the steps that it has counted.
  if (state.growth_tracker < options.window) return state;
  return {.scale = std::min(state.scale * kGrowth, kMax),
          .growth_tracker = 0,
          .hysteresis_tracker = options.hysteresis};
}

bool is_exhausted(const LossScaleOptions& options, const LossScaleState& state) {
  return state.hysteresis_tracker <= 1 && state.scale <= options.min;
}

double StepJudge::loss_scale(const ScalarState& scalars) const {
  if (!options_) return 1;
  return options_->constant ? *options_->constant : scalars.loss_scale->scale;
}

void StepJudge::begin(ScalarState& scalars) const {
  if (!may_skip_steps()) scalars.bad_steps_in_row = 0;
  if (!options_ || options_->constant) {
    scalars.loss_scale.reset();
  } else if (!scalars.loss_scale) {
    scalars.loss_scale = initial_loss_scale(*options_);
  }
}

StepOutcome StepJudge::judge(float norm, float loss, ScalarState& scalars) const {
  const bool overflows = !std::isfinite(norm);
  const bool has_loss = std::isfinite(loss);
  bool is_bad = overflows || !has_loss;
  StepOutcome outcome{.skipped = is_bad};
  if (scalars.loss_scale) {
    is_bad = overflows ? is_exhausted(*options_, *scalars.loss_scale) : !has_loss;
    scalars.loss_scale = loss_scale_after(*options_, *scalars.loss_scale, overflows);
  }
  scalars.skipped_steps += outcome.skipped ? 1 : 0;
  scalars.bad_steps_in_row = is_bad ? scalars.bad_steps_in_row + 1 : 0;
  outcome.loss_scale = loss_scale(scalars);
  outcome.bad_steps_in_row = scalars.bad_steps_in_row;
  return outcome;
}

}  // namespace weft
