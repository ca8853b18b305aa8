#include "trainer/checkpoint/resume.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "trainer/checkpoint/architecture.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/options.h"

namespace weft {

namespace {

LrDecayStyle style_named(const std::string& name) {
  for (const LrDecayStyle style : {LrDecayStyle::kConstant, LrDecayStyle::kLinear,
                                   LrDecayStyle::kCosine, LrDecayStyle::kInverseSquareRoot}) {
    if (name == name_of(style)) return style;
  }
  throw std::runtime_error("the checkpoint's learning rate decay style is not known: " + name);
}

LrConflict lr_conflict(const Config& config) {
  if (config.override_lr_scheduler) return LrConflict::kCommandLineWins;
  if (config.use_checkpoint_lr_scheduler) return LrConflict::kCheckpointWins;
  return LrConflict::kFail;
}

// The number of consumed samples tells the position of a run only while the order of samples stays.
std::vector<std::string> data_differences(const std::string& saved_arguments,
                                          const Config& config) {
  const auto saved = nlohmann::json::parse(saved_arguments, nullptr, /*allow_exceptions=*/false);
  const auto ours = nlohmann::json::parse(config.resolved_json());
  std::vector<std::string> differences;
  for (const auto& [name, flag] : {std::pair{"data_path", "--data-path"},
                                   {"split", "--split"},
                                   {"seq_length", "--seq-length"},
                                   {"seed", "--seed"},
                                   {"train_iters", "--train-iters"},
                                   {"train_samples", "--train-samples"}}) {
    if (!saved.is_object() || !saved.contains(name) || saved[name] == ours[name]) continue;
    differences.push_back(
        fmt::format("{} was {} when the checkpoint was saved and is {} now: "
                    "samples from here on may be others than without the change",
                    flag, saved[name].dump(), ours[name].dump()));
  }
  return differences;
}

}  // namespace

CheckpointInfo checkpoint_info(const RunState& state, const ModelShape& shape,
                               const Config& config) {
  const LrSettings& lr = state.lr.settings();
  CheckpointInfo info;
  info.scalars = state.scalars;
  info.consumed_valid_samples = state.consumed_valid_samples;
  info.max_lr = lr.max_lr;
  info.min_lr = lr.min_lr;
  info.lr_warmup_samples = lr.warmup_steps;
  info.lr_decay_samples = lr.decay_steps;
  info.lr_decay_style = name_of(lr.style);
  info.architecture = architecture_of(shape);
  info.arguments_json = config.resolved_json();
  return info;
}

std::optional<int64_t> iteration_to_load(const Config& config) {
  if (config.load.empty()) return std::nullopt;
  if (config.ckpt_step) return config.ckpt_step;
  const std::optional<int64_t> iteration = latest_iteration(config.load);
  if (!iteration && config.exit_on_missing_checkpoint) {
    throw std::runtime_error(
        config.load +
        ": no latest_checkpointed_iteration.txt, so there is no checkpoint to load (--exit-on-missing-checkpoint)");
  }
  return iteration;
}

Resume plan_resume(const CheckpointInfo& checkpoint, const ModelShape& shape,
                   const Config& config) {
  const auto differences =
      architecture_differences(checkpoint.architecture, architecture_of(shape));
  if (!differences.empty()) {
    std::string message = "the checkpoint in " + config.load + " is of another model:";
    for (const std::string& difference : differences) message += "\n  " + difference;
    throw std::invalid_argument(message);
  }
  const LrSettings ours = lr_settings(config);
  // Imported weights have neither iterations nor a schedule.
  const bool has_past = checkpoint.scalars.iteration > 0;
  if (config.finetune || !has_past)
    return {.state = {.scalars = {}, .lr = LrSchedule(ours)}, .load_optimizer = false};

  const LrSettings saved{.max_lr = checkpoint.max_lr,
                         .min_lr = checkpoint.min_lr,
                         .warmup_steps = checkpoint.lr_warmup_samples,
                         .decay_steps = checkpoint.lr_decay_samples,
                         .style = style_named(checkpoint.lr_decay_style)};
  // Every step that was not skipped advanced the schedule by its samples, and none is skipped here.
  Resume resume{.state = {.scalars = checkpoint.scalars,
                          .consumed_valid_samples = checkpoint.consumed_valid_samples,
                          .lr = LrSchedule(reconcile(ours, saved, lr_conflict(config)),
                                           checkpoint.scalars.consumed_samples)},
                .load_optimizer = checkpoint.has_optimizer && !config.no_load_optim,
                .warnings = data_differences(checkpoint.arguments_json, config)};
  if (!resume.load_optimizer) resume.state.scalars.adam_step = 0;
  return resume;
}

}  // namespace weft
