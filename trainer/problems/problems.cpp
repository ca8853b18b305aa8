// The checks of a configuration. Every message names the flags and both values, because a silently
// wrong shape costs days (BigScience's "104B" model was a 58B one: a stale --ffn-hidden-size).
#include "trainer/problems/problems.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

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
  p.positive(c.save_retain_interval, "--save-retain-interval");
  p.add_if(c.save_retain_interval && c.keep_last,
           "--save-retain-interval {} and --keep-last {} exclude each other",
           c.save_retain_interval.value_or(0), c.keep_last.value_or(0));
  p.add_if(c.save_retain_interval.value_or(0) > 0 && c.save_interval.value_or(0) > 0 &&
               *c.save_retain_interval % *c.save_interval != 0,
           "--save-retain-interval {} is not a multiple of --save-interval {}",
           c.save_retain_interval.value_or(0), c.save_interval.value_or(0));
  p.add_if(!load && c.use_checkpoint_args, "--use-checkpoint-args needs --load");
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
    const auto covers = [&steps](const StepRange& r) {
      return r.first <= steps->last && r.last >= steps->first;
    };
    p.add_if(std::ranges::any_of(c.untrained_steps(), covers),
             "--profile-steps {} names iterations that are not trained (--iterations-to-skip, "
             "--skip-train-iteration-range)",
             c.profile_steps);
    p.add_if(c.skip_train, "--profile-steps {} needs training, and --skip-train is given",
             c.profile_steps);
    p.add_if(c.train_iters.value_or(steps->last) < steps->last,
             "--profile-steps {} goes beyond --train-iters {}", c.profile_steps,
             c.train_iters.value_or(0));
  } catch (const UsageError& error) {
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

// Benchmarks and texts while training.
void check_inference(const Config& c, ProblemList& p) {
  p.positive(c.eval_tasks_interval, "--eval-tasks-interval");
  p.positive(c.sample_interval, "--sample-interval");
  p.add_if(c.eval_tasks.empty() == c.eval_tasks_interval.has_value(),
           "--eval-tasks and --eval-tasks-interval belong together: give both or none");
  p.add_if(c.sample_prompt.empty() == c.sample_interval.has_value(),
           "--sample-prompt and --sample-interval belong together: give both or none");
  const bool infers = !c.eval_tasks.empty() || !c.sample_prompt.empty();
  p.add_if(infers && (c.tensor_model_parallel_size > 1 || c.pipeline_model_parallel_size > 1),
           "--eval-tasks and --sample-prompt need the whole model on each rank, without "
           "--tensor-model-parallel-size and --pipeline-model-parallel-size; `weft-model evaluate` "
           "and `generate` read the checkpoints of such a run");
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
  check_inference(config, p);
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
  warn_of_split(config, list);
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
