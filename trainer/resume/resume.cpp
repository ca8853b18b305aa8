#include "trainer/resume/resume.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/command_line/option_text.h"
#include "trainer/resume/architecture.h"
#include "trainer/resume/argument_changes.h"
#include "trainer/resume/blend_changes.h"

namespace weft {

namespace {

template <typename Style, size_t kSize>
Style style_named(const std::string& name, const std::pair<const char*, Style> (&styles)[kSize]) {
  for (const auto& [word, style] : styles) {
    if (name == word) return style;
  }
  throw std::runtime_error("the checkpoint's learning rate decay style is not known: " + name);
}

// The schedule that a checkpoint has saved. The weight decay is always that of the command line,
// whose changes are announced.
LrSettings saved_settings(const CheckpointInfo& checkpoint, const LrSettings& ours) {
  LrSettings saved = ours;
  saved.max_lr = checkpoint.max_lr;
  saved.min_lr = checkpoint.min_lr;
  saved.init_lr = checkpoint.init_lr;
  saved.warmup_steps = checkpoint.lr_warmup_samples;
  saved.decay_steps = checkpoint.lr_decay_samples;
  saved.style = style_named(checkpoint.lr_decay_style, kLrDecayStyles);
  saved.wsd_decay_steps = checkpoint.lr_wsd_decay_samples;
  saved.wsd_style = style_named(checkpoint.lr_wsd_decay_style, kWsdDecayStyles);
  saved.decoupled_max_lr = checkpoint.decoupled_max_lr;
  saved.decoupled_min_lr = checkpoint.decoupled_min_lr;
  saved.decay_tokens = checkpoint.lr_decay_tokens;
  saved.warmup_tokens = checkpoint.lr_warmup_tokens;
  saved.counts_as_deepspeed = checkpoint.lr_tokens_as_deepspeed;
  return saved;
}

// These are kept among the arguments.
constexpr const char* kDataParallelSize = "data_parallel_size";
constexpr const char* kCyclicOrder = "cyclic_order";

// The order of --dataloader-type cyclic is cut into micro-batches and ranks. A run that goes on
// with other ones keeps those that its order began with, or it would repeat and lose samples.
std::optional<CyclicOptions> cyclic_order_of(const std::string& saved_arguments,
                                             const Config& config) {
  const auto saved = nlohmann::json::parse(saved_arguments, nullptr, /*allow_exceptions=*/false);
  if (config.dataloader_type != "cyclic" || !saved.is_object() ||
      saved.value("dataloader_type", "") != "cyclic")
    return std::nullopt;
  try {
    const nlohmann::json& sizes = saved.at(kCyclicOrder);
    return CyclicOptions{.micro_batch_size = json_integer_at(sizes, "micro_batch_size"),
                         .data_parallel_size = json_integer_at(sizes, kDataParallelSize),
                         .shards = !config.no_data_sharding};
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("the arguments that the checkpoint has saved: ") +
                             error.what());
  }
}

LrConflict lr_conflict(const Config& config) {
  if (config.override_lr_scheduler) return LrConflict::kCommandLineWins;
  if (config.use_checkpoint_lr_scheduler) return LrConflict::kCheckpointWins;
  return LrConflict::kFail;
}

// The schedule counts samples. Where it was given in iterations, another batch size makes another
// one of it.
LrSettings reconcile_with(const CheckpointInfo& checkpoint, const LrSettings& ours,
                          const LrSettings& saved, const Config& config) {
  try {
    return reconcile(ours, saved, lr_conflict(config));
  } catch (const UsageError& error) {
    const auto arguments =
        nlohmann::json::parse(checkpoint.arguments_json, nullptr, /*allow_exceptions=*/false);
    const auto batch =
        arguments.is_object() ? arguments.find("global_batch_size") : arguments.end();
    if (!config.train_iters || batch == arguments.end() || !batch->is_number_integer() ||
        *batch == config.global_batch())
      throw;
    throw UsageError(fmt::format(
        "{}. These count samples, and --global-batch-size was {} and is {} now{}", error.what(),
        batch->get<int64_t>(), config.global_batch(),
        config.global_batch_size ? "" : ", which follows from the number of ranks: give it"));
  }
}

// Throws for a folder that holds weights, but not as a --save folder does: the run would start from
// random ones.
void refuse_what_is_no_save_folder(const std::filesystem::path& load) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(load)) return;
  if (fs::exists(manifest_path(load)) || fs::exists(load / "state_00000.safetensors")) {
    const fs::path folder = load.has_filename() ? load : load.parent_path();
    throw UsageError(fmt::format(
        "--load {} is a checkpoint itself: give the folder that it lies in, --load {}, and its "
        "iteration by --ckpt-step",
        load.string(), folder.has_parent_path() ? folder.parent_path().string() : "."));
  }
  if (holds_model_of_megatron(load) || holds_model_of_megatron(load / "release")) {
    throw UsageError(fmt::format("--load {} holds a checkpoint of Megatron, {}", load.string(),
                                 kWayFromMegatron));
  }
}

}  // namespace

CheckpointInfo checkpoint_info(const RunState& state, const ModelShape& shape, const Config& config,
                               const DataIdentity& data) {
  const LrSettings& lr = state.lr.settings();
  CheckpointInfo info;
  info.scalars = state.scalars;
  info.consumed_valid_samples = state.consumed_valid_samples;
  info.max_lr = lr.max_lr;
  info.min_lr = lr.min_lr;
  info.init_lr = lr.init_lr;
  info.lr_wsd_decay_samples = lr.wsd_decay_steps;
  info.lr_wsd_decay_style = name_of(lr.wsd_style);
  info.decoupled_max_lr = lr.decoupled_max_lr;
  info.decoupled_min_lr = lr.decoupled_min_lr;
  info.lr_warmup_samples = lr.warmup_steps;
  info.lr_decay_samples = lr.decay_steps;
  info.lr_decay_style = name_of(lr.style);
  info.lr_decay_tokens = lr.decay_tokens;
  info.lr_warmup_tokens = lr.warmup_tokens;
  info.lr_tokens_as_deepspeed = lr.counts_as_deepspeed;
  info.lr_samples = state.lr.position().samples;
  info.lr_tokens = state.lr.position().tokens;
  info.lr_warmup_end_tokens = state.lr.position().warmup_end_tokens;
  info.architecture = architecture_of(shape);
  info.data = data;
  auto arguments = nlohmann::ordered_json::parse(resolved_json(config));
  arguments[kDataParallelSize] = config.data_parallel_size();
  if (state.cyclic) {
    arguments[kCyclicOrder] = {{"micro_batch_size", state.cyclic->micro_batch_size},
                               {kDataParallelSize, state.cyclic->data_parallel_size}};
  }
  info.arguments_json = arguments.dump();
  info.run_segments_json = state.run_segments_json;
  return info;
}

std::optional<CheckpointChoice> checkpoint_to_load(const Config& config) {
  if (config.load.empty()) return std::nullopt;
  std::optional<CheckpointChoice> choice =
      config.ckpt_step ? CheckpointChoice{*config.ckpt_step} : choose_checkpoint(config.load);
  // Such a folder would be taken for one where checkpoints are still to come, and its weights for
  // random ones.
  const std::filesystem::path hf_weights = std::filesystem::path(config.load) / "model.safetensors";
  if (!choice && (std::filesystem::exists(hf_weights) ||
                  std::filesystem::exists(hf_weights.string() + ".index.json"))) {
    throw UsageError(fmt::format(
        "--load {} is a Hugging Face folder: make a checkpoint of it first with weft-model import "
        "--input {} --save START, and give --load START",
        config.load, config.load));
  }
  if (!choice) refuse_what_is_no_save_folder(config.load);
  if (!choice && config.exit_on_missing_checkpoint) {
    throw std::runtime_error(config.load +
                             ": no latest_checkpointed_iteration.txt, so there is no "
                             "checkpoint to load (--exit-on-missing-checkpoint)");
  }
  if (choice && choice->warnings.empty() && !config.finetune && !config.skip_train &&
      loads_from_its_save_folder(config)) {
    const std::vector<int64_t> stored = stored_iterations(config.save);
    if (!stored.empty() && stored.front() > choice->iteration) {
      choice->warnings.push_back(fmt::format(
          "{} holds checkpoints up to iteration {}: this run goes another way from iteration {} on. It drops the log "
          "of later steps, and replaces checkpoints of the same iterations",
          config.save, stored.front(), choice->iteration));
    }
  }
  return choice;
}

bool loads_from_its_save_folder(const Config& config) {
  if (config.load.empty() || config.save.empty()) return false;
  namespace fs = std::filesystem;
  return fs::weakly_canonical(config.load) == fs::weakly_canonical(config.save);
}

void check_save_folder(const Config& config, bool loads) {
  if (config.save.empty()) return;
  for (const int64_t iteration : stored_iterations(config.save)) {
    const std::filesystem::path folder = checkpoint_folder(config.save, iteration);
    if (!std::filesystem::exists(folder) || is_replaceable(folder)) continue;
    throw UsageError(folder.string() +
                     " holds files, but no checkpoint of Weft, so this run could not "
                     "save under that name; move it away or give another --save");
  }
  if (config.overwrite) return;
  if (loads && loads_from_its_save_folder(config) && !config.finetune) return;
  const std::vector<int64_t> stored = stored_iterations(config.save);
  if (stored.empty() && !latest_iteration(config.save)) return;
  throw UsageError(fmt::format(
      "--save {} holds checkpoints{}, and this run would {} and overwrite them: give --load {} to "
      "resume, another --save, or --overwrite",
      config.save,
      stored.empty() ? "" : fmt::format(", the newest of iteration {}", stored.front()),
      loads ? "start from " + config.load : "start anew", config.save));
}

Resume plan_resume(const CheckpointInfo& checkpoint, const ModelShape& shape, const Config& config,
                   const DataIdentity& data) {
  const auto differences =
      architecture_differences(checkpoint.architecture, architecture_of(shape));
  if (!differences.empty()) {
    std::string message = "the checkpoint in " + config.load + " is of another model:";
    for (const std::string& difference : differences) message += "\n  " + difference;
    throw UsageError(message);
  }
  const LrSettings ours = lr_settings(config);
  // Imported weights have neither iterations nor a schedule.
  const bool has_past = checkpoint.scalars.iteration > 0;
  if (config.finetune || !has_past) {
    // The order of samples begins anew, so only the vocabulary matters.
    return {.state = {.scalars = {}, .lr = LrSchedule(ours)},
            .load_optimizer = false,
            .warnings = compare_data({{}, checkpoint.data.vocabulary}, data, config).refused};
  }
  DataDifferences data_changes = compare_data(checkpoint.data, data, config);
  if (!data_changes.refused.empty()) {
    throw std::runtime_error("the checkpoint in " + config.load +
                             " does not fit the data of this run: " + data_changes.refused.front());
  }

  check_place_is_known(checkpoint, config);
  const int64_t num_begun = config.length_curriculum().samples_begun(
      {checkpoint.scalars.consumed_samples, checkpoint.scalars.consumed_tokens});
  const DataDifferences blend_changes =
      compare_blends(checkpoint.data, checkpoint.arguments_json, data, num_begun, config);
  if (!blend_changes.refused.empty()) throw UsageError(blend_changes.refused.front());

  const LrSettings saved = saved_settings(checkpoint, ours);
  Resume resume{.state = {.scalars = checkpoint.scalars,
                          .consumed_valid_samples = checkpoint.consumed_valid_samples,
                          .lr = LrSchedule(reconcile_with(checkpoint, ours, saved, config),
                                           {.samples = checkpoint.lr_samples,
                                            .tokens = checkpoint.lr_tokens,
                                            .warmup_end_tokens = checkpoint.lr_warmup_end_tokens}),
                          .cyclic = cyclic_order_of(checkpoint.arguments_json, config),
                          .run_segments_json = checkpoint.run_segments_json},
                .load_optimizer = checkpoint.has_optimizer && !config.no_load_optim,
                .warnings = std::move(data_changes.allowed)};
  if (resume.load_optimizer) check_optimizer_is_the_same(checkpoint, config);
  if (!checkpoint.has_optimizer && !config.no_load_optim) {
    resume.warnings.push_back(fmt::format(
        "the checkpoint in {} holds weights alone (--no-save-optim), so Adam begins anew, and does so at "
        "each resume from such a one; --no-load-optim says that this is meant",
        config.load));
  }
  for (const auto& changes : {blend_changes.allowed, argument_differences(checkpoint, config)})
    resume.warnings.insert(resume.warnings.end(), changes.begin(), changes.end());
  if (!resume.load_optimizer) {
    resume.state.scalars.adam_step = 0;
    resume.state.scalars.loss_scale.reset();  // it belongs to the optimizer, as in Megatron
    resume.state.scalars.fp8_scaling.reset();
  }
  return resume;
}

}  // namespace weft
