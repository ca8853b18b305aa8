// The checks of a configuration. Every message names the flags and both values, because a silently
// wrong shape costs days (BigScience's "104B" model was a 58B one: a stale --ffn-hidden-size).
#include "trainer/problems/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "indexed_dataset/samples/split.h"
#include "trainer/config/lr_schedule.h"
#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

bool product_fits(int64_t a, int64_t b) {
  int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product);
}

void check_units_of_schedule(const Config& c, ProblemList& p) {
  if (c.train_iters) {
    p.add_if(c.lr_decay_samples.has_value(),
             "--lr-decay-samples belongs to --train-samples; give --lr-decay-iters");
    p.add_if(c.lr_warmup_samples.has_value(),
             "--lr-warmup-samples belongs to --train-samples; give --lr-warmup-iters");
  } else if (c.train_samples) {
    p.add_if(c.lr_decay_iters.has_value(),
             "--lr-decay-iters belongs to --train-iters; give --lr-decay-samples");
    p.add_if(c.lr_warmup_iters.has_value(),
             "--lr-warmup-iters belongs to --train-iters; give --lr-warmup-samples");
  }
  p.add_if(c.lr_warmup_fraction && c.lr_warmup_iters.value_or(0) != 0,
           "--lr-warmup-fraction {} and --lr-warmup-iters {} exclude each other",
           c.lr_warmup_fraction.value_or(0), c.lr_warmup_iters.value_or(0));
  p.add_if(c.lr_warmup_fraction && c.lr_warmup_samples.value_or(0) != 0,
           "--lr-warmup-fraction {} and --lr-warmup-samples {} exclude each other",
           c.lr_warmup_fraction.value_or(0), c.lr_warmup_samples.value_or(0));
}

// A schedule that is counted in tokens.
void check_tokens_of_schedule(const Config& c, ProblemList& p) {
  p.positive(c.lr_decay_tokens, "--lr-decay-tokens");
  p.positive(c.lr_warmup_tokens, "--lr-warmup-tokens");
  p.add_if(c.lr_warmup_tokens && !c.lr_decay_tokens,
           "--lr-warmup-tokens {} needs --lr-decay-tokens", c.lr_warmup_tokens.value_or(0));
  p.add_if(c.lr_tokens_as_deepspeed && !c.lr_decay_tokens,
           "--lr-tokens-as-deepspeed needs --lr-decay-tokens");
  const bool has_other = c.lr_warmup_iters.value_or(0) != 0 ||
                         c.lr_warmup_samples.value_or(0) != 0 || c.lr_warmup_fraction;
  p.add_if(c.lr_warmup_tokens && has_other,
           "--lr-warmup-tokens excludes --lr-warmup-iters, --lr-warmup-samples and "
           "--lr-warmup-fraction");
  p.add_if(c.lr_warmup_tokens && c.lr_decay_tokens && *c.lr_warmup_tokens >= *c.lr_decay_tokens,
           "--lr-warmup-tokens {} must be less than --lr-decay-tokens {}",
           c.lr_warmup_tokens.value_or(0), c.lr_decay_tokens.value_or(0));
  p.add_if(c.lr_decay_tokens && c.lr_decay_style == LrDecayStyle::kInverseSquareRoot,
           "--lr-decay-tokens goes with --lr-decay-style linear or cosine");
}

void check_optimizer(const Config& c, ProblemList& p) {
  p.add_if(!(c.lr > 0), "--lr is required and must be positive (got {})", c.lr);
  p.add_if(c.min_lr < 0 || c.min_lr > c.lr, "--min-lr {} must lie between 0 and --lr {}", c.min_lr,
           c.lr);
  p.positive(c.lr_decay_iters, "--lr-decay-iters");
  p.positive(c.lr_decay_samples, "--lr-decay-samples");
  p.add_if(c.lr_warmup_iters.value_or(0) < 0, "--lr-warmup-iters must be at least 0 (got {})",
           c.lr_warmup_iters.value_or(0));
  p.add_if(c.lr_warmup_samples.value_or(0) < 0, "--lr-warmup-samples must be at least 0 (got {})",
           c.lr_warmup_samples.value_or(0));
  const double fraction = c.lr_warmup_fraction.value_or(0);
  p.add_if(fraction < 0 || fraction >= 1, "--lr-warmup-fraction must be in [0, 1) (got {})",
           fraction);
  check_units_of_schedule(c, p);
  check_tokens_of_schedule(c, p);
  bool fits = true;
  for (const auto& [iterations, flag] : {std::pair{c.train_iters, "--train-iters"},
                                         {c.lr_decay_iters, "--lr-decay-iters"},
                                         {c.lr_warmup_iters, "--lr-warmup-iters"}}) {
    if (product_fits(iterations.value_or(0), c.global_batch())) continue;
    fits = false;
    p.add_if(true, "{} {} times --global-batch-size {} does not fit into 64 bits", flag,
             iterations.value_or(0), c.global_batch());
  }
  if (fits && c.train_iters.has_value() != c.train_samples.has_value()) {
    const LrSettings settings = lr_settings(c);
    p.add_if(settings.warmup_steps >= static_cast<double>(settings.decay_steps) &&
                 settings.decay_steps > 0,
             "learning rate warm-up of {} samples must be shorter than its decay of {} samples "
             "(--lr-warmup-*, --lr-decay-*)",
             settings.warmup_steps, settings.decay_steps);
  }
  const auto is_beta = [](double value) { return value >= 0 && value < 1; };
  p.add_if(!is_beta(c.adam_beta1), "--adam-beta1 must be in [0, 1) (got {})", c.adam_beta1);
  p.add_if(!is_beta(c.adam_beta2), "--adam-beta2 must be in [0, 1) (got {})", c.adam_beta2);
  p.add_if(
      !(static_cast<float>(c.adam_eps) > 0),
      "--adam-eps must be positive and no smaller than 1.4e-45, the least number of fp32 (got {})",
      c.adam_eps);
  p.add_if(c.weight_decay < 0, "--weight-decay must be at least 0 (got {})", c.weight_decay);
  p.add_if(c.clip_grad < 0, "--clip-grad must be at least 0 (got {})", c.clip_grad);
  p.add_if(c.seed < 0, "--seed must be at least 0 (got {})", c.seed);
  p.add_if(c.override_lr_scheduler && c.use_checkpoint_lr_scheduler,
           "--override-lr-scheduler and --use-checkpoint-lr-scheduler exclude each other");
}

// Returns for train, validation and test whether the split gives it any sequence of a large
// dataset.
std::array<bool, 3> shares_of_split(const std::string& split) {
  const auto ranges = split_ranges(split, int64_t{1} << 40);
  return {ranges[0].has_value(), ranges[1].has_value(), ranges[2].has_value()};
}

// Shares of one --split; with own paths it means nothing.
void check_split(const Config& c, ProblemList& p) {
  try {
    const auto has_share = shares_of_split(c.split);
    p.add_if(!has_share[0] && !c.skip_train, "--split {} gives training 0 %", c.split);
    p.add_if(c.eval_iters > 0 && !has_share[1],
             "validation requested (--eval-iters {}) but --split {} gives it 0 %; "
             "give --eval-iters 0 or a share",
             c.eval_iters, c.split);
  } catch (const std::invalid_argument& error) {
    p.add_if(true, "--split {}: {}", c.split, error.what());
  }
}

// Names of datasets, and what they are for.
void check_blends(const Config& c, ProblemList& p) {
  try {
    const SplitBlends blends = resolve_data_paths(c.data_paths());
    if (!blends.has_own_paths) check_split(c, p);
    p.add_if(blends.of(Split::kTrain).empty() && !c.skip_train,
             "no dataset is named for training; give --train-data-path");
    for (const Blend& blend : blends.of(Split::kValid)) {
      p.add_if(c.full_validation && blend.prefixes.size() > 1 && !blend.weights.empty(),
               "--full-validation takes every sample of {} datasets once, so weights would mean "
               "nothing; name them without weights by --valid-data-path, or as a group each",
               blend.prefixes.size());
    }
    p.add_if(
        c.full_validation && c.eval_iters == 0,
        "--full-validation with --eval-iters 0 would validate nothing; give --eval-iters 1 or more, "
        "which is then for the test");
    p.add_if(c.eval_iters > 0 && blends.of(Split::kValid).empty(),
             "validation requested (--eval-iters {}) but no dataset is named for it; "
             "give --valid-data-path or --eval-iters 0",
             c.eval_iters);
  } catch (const std::exception& error) {
    p.add_if(true, "{}", error.what());
  }
}

void check_data(const Config& c, ProblemList& p) {
  if (!c.plans_without_data()) check_blends(c, p);
  p.add_if(!(c.mid_level_dataset_surplus >= 0),
           "--mid-level-dataset-surplus must be at least 0 (got {})", c.mid_level_dataset_surplus);
  p.add_if(c.dataloader_type != "single" && c.dataloader_type != "cyclic",
           "--dataloader-type {} is none of single, cyclic", c.dataloader_type);
  p.add_if(c.dataloader_type == "cyclic" && !c.blend_schedule.empty(),
           "--dataloader-type cyclic shuffles all samples of a run, so --blend-schedule would mean "
           "nothing; leave one of them out");
  const bool resets = c.reset_position_ids || c.reset_attention_mask;
  p.add_if(c.dataloader_inter_document_masking && resets,
           "--dataloader-inter-document-masking restarts positions and masks attention at the ends "
           "of the dataset's documents, --reset-position-ids and --reset-attention-mask at "
           "end-of-document tokens; give the one or the others");
  p.add_if(c.num_workers < 1, "--num-workers must be at least 1 (got {})", c.num_workers);
  p.at_most(c.num_workers, 1024, "--num-workers");
}

void check_checkpoints(const Config& c, ProblemList& p) {
  p.positive(c.save_interval, "--save-interval");
  p.add_if(!c.save.empty() && !c.save_interval, "--save {} needs --save-interval", c.save);
  p.add_if(c.save.empty() && c.save_interval, "--save-interval {} needs --save",
           c.save_interval.value_or(0));
  const bool load = !c.load.empty();
  p.add_if(!load && c.ckpt_step, "--ckpt-step {} needs --load", c.ckpt_step.value_or(0));
  p.add_if(!load && c.finetune, "--finetune needs --load");
  p.add_if(!load && c.exit_on_missing_checkpoint, "--exit-on-missing-checkpoint needs --load");
  p.add_if(c.async_save && c.save.empty(), "--async-save needs --save");
  p.positive(c.keep_last, "--keep-last");
  p.positive(c.keep_every, "--keep-every");
  p.add_if(c.keep_every && !c.keep_last, "--keep-every {} needs --keep-last",
           c.keep_every.value_or(0));
  p.add_if(c.keep_last && c.save.empty(), "--keep-last {} needs --save", c.keep_last.value_or(0));
  p.add_if(!c.device_profile.empty() && !c.dry_run, "--device-profile {} needs --dry-run",
           c.device_profile);
  p.add_if(c.ckpt_step.value_or(0) < 0, "--ckpt-step must be at least 0 (got {})",
           c.ckpt_step.value_or(0));
}

void check_logs(const Config& c, ProblemList& p) {
  p.add_if(c.log_interval < 1, "--log-interval must be positive (got {})", c.log_interval);
  p.add_if(c.tensorboard_log_interval < 1, "--tensorboard-log-interval must be positive (got {})",
           c.tensorboard_log_interval);
  p.add_if(c.timing_log_level < 0 || c.timing_log_level > 2,
           "--timing-log-level must be 0, 1 or 2 (got {})", c.timing_log_level);
}

void check_profile(const Config& c, ProblemList& p) {
  p.add_if(c.measure_device_seconds && !c.measure_device,
           "--measure-device-seconds {} needs --measure-device",
           c.measure_device_seconds.value_or(0));
  try {
    const std::optional<StepRange> steps = c.profiled_steps();
    if (!steps) return;
    p.add_if(c.skip_train, "--profile-steps {} needs training, and --skip-train is given",
             c.profile_steps);
    p.add_if(c.train_iters.value_or(steps->last) < steps->last,
             "--profile-steps {} goes beyond --train-iters {}", c.profile_steps,
             c.train_iters.value_or(0));
  } catch (const std::invalid_argument& error) {
    p.add_if(true, "{}", error.what());
  }
}

void check_precision(const Config& c, ProblemList& p) {
  p.add_if(c.fp16 && c.bf16, "--fp16 and --bf16 exclude each other");
  p.add_if(c.fp32_residual_connection && !c.bf16 && !c.fp16,
           "--fp32-residual-connection needs --bf16 or --fp16: in fp32 the residual stream is fp32 "
           "anyway, leave the flag out");
  const auto is_scale = [](double value) { return value > 0 && value <= 0x1p127; };
  p.add_if(c.loss_scale && !is_scale(*c.loss_scale),
           "--loss-scale must be positive and at most 2^127 (got {})", c.loss_scale.value_or(0));
  p.add_if(!is_scale(c.initial_loss_scale),
           "--initial-loss-scale must be positive and at most 2^127 (got {})",
           c.initial_loss_scale);
  p.add_if(!(c.min_loss_scale > 0) || c.min_loss_scale > c.initial_loss_scale,
           "--min-loss-scale {} must be positive and at most --initial-loss-scale {}",
           c.min_loss_scale, c.initial_loss_scale);
  p.add_if(c.loss_scale_window < 1, "--loss-scale-window must be at least 1 (got {})",
           c.loss_scale_window);
  p.add_if(c.hysteresis < 1, "--hysteresis must be at least 1 (got {})", c.hysteresis);
  for (const auto& [flag, dtype] : {std::pair{"--exp-avg-dtype", &c.exp_avg_dtype},
                                    std::pair{"--exp-avg-sq-dtype", &c.exp_avg_sq_dtype}})
    p.add_if(*dtype != "fp32" && *dtype != "bf16", "{} {} is not supported: only fp32 and bf16 are",
             flag, *dtype);
  p.add_if(
      c.exp_avg_dtype != c.exp_avg_sq_dtype && !c.bf16_optimizer_state,
      "--exp-avg-dtype {} and --exp-avg-sq-dtype {} differ: both moments have one type here; give "
      "bf16 for both, or neither option",
      c.exp_avg_dtype, c.exp_avg_sq_dtype);
  p.add_if(c.skip_bad_steps < 0, "--skip-bad-steps must be at least 0 (got {})", c.skip_bad_steps);
}

void check_world(const Config& c, ProblemList& p) {
  p.add_if(c.device != "auto" && c.device != "cuda" && c.device != "cpu",
           "--device {} is none of auto, cuda, cpu", c.device);
  p.add_if(c.zero_stage && *c.zero_stage != 0 && *c.zero_stage != 1,
           "--zero-stage must be 0 or 1 (got {}): gradients and parameters are never sharded",
           c.zero_stage.value_or(0));
  p.add_if(c.zero_stage == 0 && c.use_distributed_optimizer,
           "--zero-stage 0 and --use-distributed-optimizer exclude each other");
  p.positive(c.ddp_bucket_size, "--ddp-bucket-size");
  p.positive(c.planned_world_size, "--world-size");
  p.add_if(c.planned_world_size && !c.dry_run,
           "--world-size {} needs --dry-run: the ranks that train are those that mpirun or srun "
           "starts",
           c.planned_world_size.value_or(0));
  p.add_if(c.planned_world_size && *c.planned_world_size != c.world_size,
           "--world-size {} is not the number of ranks that were started, {}; start one, or leave "
           "the option out",
           c.planned_world_size.value_or(0), c.world_size);
  p.positive(c.check_weights_interval, "--check-weights-interval");
  p.add_if(c.distributed_backend != "nccl" && c.distributed_backend != "mpi" &&
               c.distributed_backend != "gloo",
           "--distributed-backend {} is none of nccl, mpi, gloo", c.distributed_backend);
  p.add_if(!(c.distributed_timeout_minutes > 0),
           "--distributed-timeout-minutes must be positive (got {})",
           c.distributed_timeout_minutes);
}

std::vector<std::string> flags_of_dynamic_loss_scale(const Config& c) {
  const Config usual;
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, auto value, auto usual_value) {
    if (value != usual_value) flags.push_back(fmt::format("{} {}", flag, value));
  };
  add("--initial-loss-scale", c.initial_loss_scale, usual.initial_loss_scale);
  add("--min-loss-scale", c.min_loss_scale, usual.min_loss_scale);
  add("--loss-scale-window", c.loss_scale_window, usual.loss_scale_window);
  add("--hysteresis", c.hysteresis, usual.hysteresis);
  return flags;
}

}  // namespace

std::vector<std::string> problems_of(const Config& given) {
  ProblemList p;
  Config config = given;
  check_step_schedule(config, p);
  check_curriculum(config, p);
  check_metric_curriculum(config, p);
  const size_t before_shape = p.list.size();
  check_shape(config, p);
  const size_t before = p.list.size();
  const bool has_shape = before == before_shape;
  check_limits(config, p);
  if (p.list.size() == before) {  // nothing overflows
    check_shares(config, p);
    check_pipeline(config, has_shape, p);
    check_fp8(config, has_shape, p);
  }
  check_recompute(config, p);
  check_duration(config, p);
  check_optimizer(config, p);
  check_data(config, p);
  check_checkpoints(config, p);
  check_logs(config, p);
  check_profile(config, p);
  check_precision(config, p);
  check_world(config, p);
  return p.list;
}

std::vector<std::string> warnings_of(const Config& config) {
  std::vector<std::string> list;
  const int64_t usual = config.default_ffn_size();
  if (config.ffn_hidden_size && *config.ffn_hidden_size != usual) {
    list.push_back(fmt::format("--ffn-hidden-size {} is not {} ({})", *config.ffn_hidden_size,
                               config.swiglu ? "the default of --swiglu" : "4 * --hidden-size",
                               usual));
  }
  if (config.eval_iters > 0 && !shares_of_split(config.split)[2]) {
    list.push_back(
        fmt::format("--split {} gives the test set 0 %: no test at the end", config.split));
  }
  if (config.sequence_parallel && !config.shares_sequence()) {
    list.emplace_back("--sequence-parallel is off: --tensor-model-parallel-size is 1");
  }
  const auto& modules = config.recompute_modules;
  if (config.recomputes_parts() &&
      std::ranges::count(modules, "core_attn") == std::ssize(modules)) {
    list.emplace_back(
        "--recompute-granularity selective recomputes nothing here: attention never keeps its "
        "scores; give --recompute-modules layernorm activation");
  }
  if (config.loss_scale && !config.fp16) {
    list.push_back(fmt::format("--loss-scale {} has no effect without --fp16", *config.loss_scale));
  } else if (config.loss_scale && *config.loss_scale < 16) {
    list.push_back(fmt::format(
        "--loss-scale {} is the factor itself, not a power of two: small gradients will vanish; leave it "
        "out for a dynamic factor",
        *config.loss_scale));
  }
  for (const std::string& flag : flags_of_dynamic_loss_scale(config)) {
    if (!config.fp16) {
      list.push_back(flag + " has no effect without --fp16");
    } else if (config.loss_scale) {
      list.push_back(flag + " has no effect: --loss-scale is constant");
    }
  }
  warn_of_fp8_flags(config, list);
  if (config.save.empty()) list.emplace_back("no --save: the trained weights will be lost");
  return list;
}

}  // namespace weft
