// The learning rate and the weight decay as Megatron anneals them. Everything is counted in
// samples; with --lr-decay-tokens the decay is counted in tokens, as in Megatron-DeepSpeed.
// [Megatron-LM core/optimizer_param_scheduler.py; bigscience-workshop/Megatron-DeepSpeed
// megatron/learning_rates.py; microsoft/Megatron-DeepSpeed megatron/optimizer_param_scheduler.py]
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/config/config.h"

namespace weft {

struct LrSettings {
  double max_lr = 0, min_lr = 0, init_lr = 0;
  double warmup_steps = 0;  // samples; a fraction of decay_steps need not be whole
  int64_t decay_steps = 0;  // samples
  LrDecayStyle style = LrDecayStyle::kLinear;
  int64_t wsd_decay_steps = 0;  // samples of the last part of WSD
  WsdDecayStyle wsd_style = WsdDecayStyle::kExponential;
  // Of the word embedding and the head, where they have rates of their own.
  std::optional<double> decoupled_max_lr = {}, decoupled_min_lr = {};
  double first_weight_decay = 0, last_weight_decay = 0;
  int64_t weight_decay_steps = 0;  // samples until the last one
  WeightDecayStyle weight_decay_style = WeightDecayStyle::kConstant;
  std::optional<int64_t> decay_tokens = {};   // then decay_steps has no meaning
  std::optional<int64_t> warmup_tokens = {};  // then warmup_steps has none
  // Count tokens as Megatron-DeepSpeed does: those of a step count one step later, and decay begins
  // at token 0 unless a step ends exactly with the warm-up's last sample.
  bool counts_as_deepspeed = false;
};

// How far a schedule is.
struct LrPosition {
  int64_t samples = 0;            // of the successful steps
  int64_t tokens = 0;             // of the run when the last of these steps was done
  int64_t warmup_end_tokens = 0;  // the tokens when the warm-up in samples was over; 0 before
};

// Returns the settings of a configuration; iterations become samples (times global batch size).
LrSettings lr_settings(const Config& config);

// The rate after n samples, with w samples of warm-up and d of decay, is the first of these lines
// that applies; r = (n - w) / (d - w).
//   n <= w and w > 0      init + (max - init) * n / w
//   constant              max
//   n > d                 min
//   inverse-square-root   max(min, max * sqrt(max(w, 1) / max(n, 1)))
//   linear                min + (1 - r) * (max - min)
//   cosine                min + (1 + cos(pi r)) / 2 * (max - min)
//   WSD                   max up to n = d - a; then, with r = (n - (d - a)) / a, as linear and
//                         cosine, or min + s * (max - min) with s = 2 * 0.5^r - 1 (exponential) or
//                         1 - sqrt(r) (minus_sqrt)
// The weight decay after n of e samples is the last one for n > e, else first + c * (last - first)
// with c = n / e (linear) or (1 + cos(pi (1 - n / e))) / 2 (cosine).
// With decay_tokens n and d are tokens from the third line on, and w is warmup_end_tokens; with
// warmup_tokens n is tokens in all lines, and w is warmup_tokens.
class LrSchedule {
 public:
  explicit LrSchedule(const LrSettings& settings, const LrPosition& position = {})
      : settings_(settings), position_(position) {}

  double at(const LrPosition& position) const;
  // For schedules in samples.
  double at(int64_t num_samples) const { return at(LrPosition{.samples = num_samples}); }
  // Returns the rate of the next step. With warm-up the first step runs with init_lr, as in
  // Megatron.
  double current() const { return at(position_); }
  // The same of the word embedding and the head, where they have rates of their own.
  std::optional<double> current_decoupled() const;
  double current_weight_decay() const;
  // Call this after a step that updated the weights, with its number of samples and with all tokens
  // that the run had consumed before it and has consumed now.
  void advance(int64_t num_samples, int64_t tokens_before = 0, int64_t tokens_now = 0);
  const LrPosition& position() const { return position_; }
  const LrSettings& settings() const { return settings_; }

 private:
  double at(const LrPosition& position, double max_lr, double min_lr) const;

  LrSettings settings_;
  LrPosition position_;
};

enum class LrConflict { kFail, kCommandLineWins, kCheckpointWins };

// Returns the settings to resume with. Where the two differ, kFail throws UsageError in
// Megatron's words.
LrSettings reconcile(const LrSettings& command_line, const LrSettings& checkpoint,
                     LrConflict conflict);

}  // namespace weft
