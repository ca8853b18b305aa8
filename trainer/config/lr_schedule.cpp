#include "trainer/config/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace weft {

LrSettings lr_settings(const Config& config) {
  LrSettings settings{.max_lr = config.lr, .min_lr = config.min_lr, .style = config.lr_decay_style};
  if (config.train_iters) {
    const int64_t batch = config.global_batch();
    settings.decay_steps = config.lr_decay_iters.value_or(*config.train_iters) * batch;
    settings.warmup_steps = static_cast<double>(config.lr_warmup_iters.value_or(0) * batch);
  } else {
    settings.decay_steps = config.lr_decay_samples.value_or(config.train_samples.value_or(0));
    settings.warmup_steps = static_cast<double>(config.lr_warmup_samples.value_or(0));
  }
  if (config.lr_warmup_fraction) {
    settings.warmup_steps = *config.lr_warmup_fraction * static_cast<double>(settings.decay_steps);
  }
  return settings;
}

double LrSchedule::at(int64_t num_steps) const {
  const auto& [max_lr, min_lr, warmup, decay_steps, style] = settings_;
  const auto n = static_cast<double>(num_steps);
  const auto decay = static_cast<double>(decay_steps);
  if (warmup > 0 && n <= warmup) return max_lr * n / warmup;
  if (style == LrDecayStyle::kConstant) return max_lr;
  if (num_steps > decay_steps) return min_lr;
  if (style == LrDecayStyle::kInverseSquareRoot) {
    return std::max(min_lr,
                    max_lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
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
    throw std::invalid_argument(fmt::format(
        "AnnealingLR: class input value {} and checkpoint value {} for {} do not match; "
        "give --override-lr-scheduler to use this command line's schedule "
        "or --use-checkpoint-lr-scheduler to use the checkpoint's",
        ours, saved, name));
  };
  check(command_line.max_lr, checkpoint.max_lr, "learning rate");
  check(command_line.min_lr, checkpoint.min_lr, "minimum learning rate");
  check(command_line.warmup_steps, checkpoint.warmup_steps, "warmup iterations");
  check(command_line.decay_steps, checkpoint.decay_steps, "total number of iterations");
  check(std::string(name_of(command_line.style)), std::string(name_of(checkpoint.style)),
        "decay style");
  return command_line;
}

}  // namespace weft
