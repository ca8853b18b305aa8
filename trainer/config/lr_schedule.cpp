#include "trainer/config/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

namespace {

// The share of the rate that is left, `ratio` of the way through the last part of WSD.
double wsd_share(WsdDecayStyle style, double ratio) {
  switch (style) {
    case WsdDecayStyle::kLinear:
      return 1.0 - ratio;
    case WsdDecayStyle::kCosine:
      return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
    case WsdDecayStyle::kMinusSqrt:
      return 1.0 - std::sqrt(ratio);
    case WsdDecayStyle::kExponential:
      break;
  }
  return 2.0 * std::pow(0.5, ratio) - 1.0;
}

}  // namespace

LrSettings lr_settings(const Config& config) {
  LrSettings settings{.max_lr = config.lr,
                      .min_lr = config.min_lr,
                      .init_lr = config.lr_warmup_init,
                      .style = config.lr_decay_style,
                      .wsd_style = config.lr_wsd_decay_style,
                      .decoupled_max_lr = config.decoupled_lr,
                      .first_weight_decay = config.first_weight_decay(),
                      .last_weight_decay = config.last_weight_decay(),
                      .weight_decay_style = config.weight_decay_incr_style};
  if (config.decoupled_lr)
    settings.decoupled_min_lr = config.decoupled_min_lr.value_or(config.min_lr);
  if (config.train_iters) {
    const int64_t batch = config.global_batch();
    settings.wsd_decay_steps = config.lr_wsd_decay_iters.value_or(0) * batch;
    settings.weight_decay_steps = *config.train_iters * batch;
    settings.decay_steps = config.lr_decay_iters.value_or(*config.train_iters) * batch;
    settings.warmup_steps = static_cast<double>(config.lr_warmup_iters.value_or(0) * batch);
  } else {
    settings.wsd_decay_steps = config.lr_wsd_decay_samples.value_or(0);
    settings.weight_decay_steps = config.train_samples.value_or(0);
    settings.decay_steps = config.lr_decay_samples.value_or(config.train_samples.value_or(0));
    settings.warmup_steps = static_cast<double>(config.lr_warmup_samples.value_or(0));
  }
  settings.decay_tokens = config.lr_decay_tokens;
  settings.warmup_tokens = config.lr_warmup_tokens;
  settings.counts_as_deepspeed = config.lr_tokens_as_deepspeed;
  if (config.lr_warmup_fraction) {
    settings.warmup_steps = *config.lr_warmup_fraction * static_cast<double>(settings.decay_steps);
  }
  return settings;
}

void LrSchedule::advance(int64_t num_samples, int64_t tokens_before, int64_t tokens_now) {
  const auto before = static_cast<double>(position_.samples);
  position_.samples += num_samples;
  position_.tokens = settings_.counts_as_deepspeed ? tokens_before : tokens_now;
  const auto now = static_cast<double>(position_.samples);
  const double end = settings_.warmup_steps;
  const bool is_over = settings_.counts_as_deepspeed ? now == end : before < end && now >= end;
  if (is_over) position_.warmup_end_tokens = position_.tokens;
}

double LrSchedule::at(const LrPosition& position) const {
  return at(position, settings_.max_lr, settings_.min_lr);
}

std::optional<double> LrSchedule::current_decoupled() const {
  if (!settings_.decoupled_max_lr) return std::nullopt;
  return at(position_, *settings_.decoupled_max_lr, settings_.decoupled_min_lr.value_or(0));
}

double LrSchedule::current_weight_decay() const {
  const double first = settings_.first_weight_decay, last = settings_.last_weight_decay;
  const auto n = static_cast<double>(position_.samples),
             end = static_cast<double>(settings_.weight_decay_steps);
  if (settings_.weight_decay_style == WeightDecayStyle::kConstant || n > end) return last;
  const double ratio = n / end;
  const double share = settings_.weight_decay_style == WeightDecayStyle::kLinear
                           ? ratio
                           : 0.5 * (std::cos(std::numbers::pi * (1.0 - ratio)) + 1.0);
  return first + share * (last - first);
}

double LrSchedule::at(const LrPosition& position, double max_lr, double min_lr) const {
  const LrDecayStyle style = settings_.style;
  auto n = static_cast<double>(position.samples), warmup = settings_.warmup_steps,
       decay = static_cast<double>(settings_.decay_steps);
  if (settings_.warmup_tokens) {
    n = static_cast<double>(position.tokens);
    warmup = static_cast<double>(*settings_.warmup_tokens);
  }
  if (warmup > 0 && n <= warmup) {
    const double init_lr = settings_.init_lr;
    return init_lr + (max_lr - init_lr) * n / warmup;
  }
  if (style == LrDecayStyle::kConstant) return max_lr;
  if (settings_.decay_tokens) {
    n = static_cast<double>(position.tokens);
    decay = static_cast<double>(*settings_.decay_tokens);
    if (!settings_.warmup_tokens) warmup = static_cast<double>(position.warmup_end_tokens);
  }
  if (n > decay) return min_lr;
  if (style == LrDecayStyle::kInverseSquareRoot) {
    return std::max(min_lr,
                    max_lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  }
  if (style == LrDecayStyle::kWsd) {
    const auto anneal = static_cast<double>(settings_.wsd_decay_steps);
    const double share =
        n <= decay - anneal ? 1.0 : wsd_share(settings_.wsd_style, (n - (decay - anneal)) / anneal);
    return min_lr + share * (max_lr - min_lr);
  }
  const double ratio = (n - warmup) / (decay - warmup);
  const double share = style == LrDecayStyle::kLinear
                           ? 1.0 - ratio
                           : 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
  return min_lr + share * (max_lr - min_lr);
}

LrSettings reconcile(const LrSettings& command_line, const LrSettings& checkpoint,
                     LrConflict conflict) {
  if (conflict == LrConflict::kCommandLineWins) return command_line;
  if (conflict == LrConflict::kCheckpointWins) return checkpoint;
  const auto check = [](const auto& ours, const auto& saved, const char* name) {
    if (ours == saved) return;
    throw UsageError(fmt::format(
        "AnnealingLR: class input value {} and checkpoint value {} for {} do not match; "
        "give --override-lr-scheduler to use this command line's schedule "
        "or --use-checkpoint-lr-scheduler to use the checkpoint's",
        ours, saved, name));
  };
  check(command_line.max_lr, checkpoint.max_lr, "learning rate");
  check(command_line.min_lr, checkpoint.min_lr, "minimum learning rate");
  check(command_line.warmup_steps, checkpoint.warmup_steps, "warmup iterations");
  check(command_line.decay_steps, checkpoint.decay_steps, "total number of iterations");
  check(command_line.decay_tokens.value_or(0), checkpoint.decay_tokens.value_or(0),
        "number of decay tokens");
  check(command_line.warmup_tokens.value_or(0), checkpoint.warmup_tokens.value_or(0),
        "number of warmup tokens");
  check(command_line.counts_as_deepspeed, checkpoint.counts_as_deepspeed,
        "--lr-tokens-as-deepspeed");
  check(std::string(name_of(command_line.style)), std::string(name_of(checkpoint.style)),
        "decay style");
  check(command_line.init_lr, checkpoint.init_lr, "initial learning rate");
  check(command_line.wsd_decay_steps, checkpoint.wsd_decay_steps, "number of WSD decay iterations");
  check(std::string(name_of(command_line.wsd_style)), std::string(name_of(checkpoint.wsd_style)),
        "WSD decay style");
  check(command_line.decoupled_max_lr.value_or(0), checkpoint.decoupled_max_lr.value_or(0),
        "decoupled learning rate");
  check(command_line.decoupled_min_lr.value_or(0), checkpoint.decoupled_min_lr.value_or(0),
        "decoupled minimum learning rate");
  return command_line;
}

}  // namespace weft
