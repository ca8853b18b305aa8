#include "trainer/step/loss_scale.h"

#include <algorithm>

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

}  // namespace weft
