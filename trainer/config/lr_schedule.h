// The learning rate as Megatron anneals it; everything is counted in samples.
// [Megatron-LM core/optimizer_param_scheduler.py]
#pragma once

#include <cstdint>
#include <string>

#include "trainer/config/config.h"

namespace weft {

struct LrSettings {
  double max_lr = 0, min_lr = 0;
  double warmup_steps = 0;  // samples; a fraction of decay_steps need not be whole
  int64_t decay_steps = 0;  // samples
  LrDecayStyle style = LrDecayStyle::kLinear;
};

// Returns the settings of a configuration; iterations become samples (times global batch size).
LrSettings lr_settings(const Config& config);

// The rate after n samples, with w samples of warm-up and d of decay, is the first of these lines
// that applies; r = (n - w) / (d - w).
//   n <= w and w > 0      max * n / w
//   constant              max
//   n > d                 min
//   inverse-square-root   max(min, max * sqrt(max(w, 1) / max(n, 1)))
//   linear                min + (1 - r) * (max - min)
//   cosine                min + (1 + cos(pi r)) / 2 * (max - min)
class LrSchedule {
 public:
  explicit LrSchedule(const LrSettings& settings, int64_t num_steps = 0)
      : settings_(settings), num_steps_(num_steps) {}

  double at(int64_t num_steps) const;
  // Returns the rate of the next step. With warm-up the first step runs with 0, as in Megatron.
  double current() const { return at(num_steps_); }
  // Call this after a step that updated the weights, with its number of samples.
  void advance(int64_t num_samples) { num_steps_ += num_samples; }
  int64_t num_steps() const { return num_steps_; }
  const LrSettings& settings() const { return settings_; }

 private:
  LrSettings settings_;
  int64_t num_steps_ = 0;  // samples of the successful steps
};

enum class LrConflict { kFail, kCommandLineWins, kCheckpointWins };

// Returns the settings to resume with. Where the two differ, kFail throws std::invalid_argument in
// Megatron's words.
LrSettings reconcile(const LrSettings& command_line, const LrSettings& checkpoint,
                     LrConflict conflict);

}  // namespace weft
