// A resumed run tells which arguments it changes, and every option is listed with what its change
// does.
#include "trainer/resume/argument_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/trainer/small_run.h"
#include "trainer/command_line/option_text.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST(Resume, WarnsOfWhatChangesTheOrderOfTheSamples) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.seed += 1;
  config.split = "80,10,10";
  config.global_batch_size = 16;
  config.override_lr_scheduler = true;
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--split was"), HasSubstr("--seed was"),
                                   HasSubstr("--global-batch-size was 8 when")));
}

TEST(Resume, WarnsOfAChangedListOfOneElement) {
  Config config = base_config();
  config.paths.data_path.clear();
  config.paths.train_weighted_split_paths = {"train: 0.5 0:0.9 s, 0.5 0:0.9 m"};
  config.curriculum = {.schedule_type = "fixed_discrete", .difficulty = {8, 16}, .max_step = {10}};
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.paths.train_weighted_split_paths = {"train: 0.9 0:0.9 s, 0.1 0:0.9 m"};
  config.curriculum.max_step = {7};
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--train-weighted-split-paths was"),
                                   HasSubstr("--curriculum-max-step was [10]")));
}

// Older versions wrote the default without spaces.
TEST(Resume, ASplitInOtherWordsIsNoChange) {
  Config config = base_config();
  config.split = "969,30,1";
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.split = "969, 30, 1";
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.split = "969, 31, 1";
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(testing::HasSubstr("--split was")));
}

TEST(Resume, WarnsOfEvaluationsThatTakeOtherSamples) {
  Config config = base_config();
  config.paths.data_path.clear();
  config.paths.train_data_path = {"/data/p"};
  config.paths.valid_data_path = {"0.5", "/data/p", "0.5", "/data/q"};
  config.paths.test_data_path = {"/data/p"};
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  // The only dataset of a run may lie elsewhere. Of several, one may have taken the place of
  // another.
  Config swapped = config;
  swapped.paths.train_data_path = {"/data/q"};
  swapped.paths.test_data_path = {"/data/q"};
  EXPECT_THAT(plan_resume(info, shape, swapped, data_of_run()).warnings,
              testing::UnorderedElementsAre(HasSubstr("--train-data-path was"),
                                            HasSubstr("--test-data-path was")));
  Config alone = base_config();
  alone.paths.data_path = {"/data/p"};
  const CheckpointInfo of_one = saved_by(alone, shape);
  alone.paths.data_path = {"/moved/p"};
  EXPECT_THAT(plan_resume(of_one, shape, alone, data_of_run()).warnings, testing::IsEmpty());
  config.paths.valid_data_path[0] = "0.9";
  config.eval_iters += 1;
  config.eval_interval += 1;
  config.full_validation = true;
  EXPECT_THAT(
      plan_resume(info, shape, config, data_of_run()).warnings,
      testing::ElementsAre(HasSubstr("--valid-data-path was"), HasSubstr("--eval-iters was"),
                           HasSubstr("--eval-interval was"), HasSubstr("--full-validation was")));
  Config groups = base_config();
  groups.paths.valid_weighted_split_paths = {"v: 1 0.9:1 s"};
  groups.paths.test_weighted_split_paths = {"t: 1 0.9:1 s"};
  const CheckpointInfo of_groups = saved_by(groups, shape);
  groups.paths.valid_weighted_split_paths = {"v: 1 0.8:1 s"};
  groups.paths.test_weighted_split_paths = {"t: 1 0.8:1 s"};
  EXPECT_THAT(plan_resume(of_groups, shape, groups, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--valid-weighted-split-paths was"),
                                   HasSubstr("--test-weighted-split-paths was")));
}

TEST(Resume, WarnsOfACurriculumThatBeginsOrEnds) {
  const Config plain = base_config();
  Config growing = plain;
  growing.curriculum = {.schedule_type = "fixed_linear", .min_difficulty = 8, .total_step = 5};
  const ModelShape shape = model_shape(plain, 64);
  CheckpointInfo info = saved_by(plain, shape);
  const auto begins = testing::Contains(HasSubstr(
      "--curriculum-schedule-type was null when the checkpoint was saved and is \"fixed_linear\""));
  EXPECT_THAT(plan_resume(info, shape, growing, data_of_run()).warnings, begins);
  EXPECT_THAT(plan_resume(saved_by(growing, shape), shape, plain, data_of_run()).warnings,
              testing::Contains(HasSubstr("--curriculum-schedule-type was \"fixed_linear\"")));
  // A checkpoint of a version that had no curricula.
  auto arguments = nlohmann::json::parse(info.arguments_json);
  for (const char* name : {"curriculum_schedule_type", "curriculum_mode"}) arguments.erase(name);
  info.arguments_json = arguments.dump();
  EXPECT_THAT(plan_resume(info, shape, growing, data_of_run()).warnings, begins);
  EXPECT_THAT(plan_resume(info, shape, plain, data_of_run()).warnings, testing::IsEmpty());
}

TEST(Resume, WarnsOfAResidualStreamOfAnotherType) {
  Config narrow = base_config();
  narrow.bf16 = true;
  Config wide = narrow;
  wide.fp32_residual_connection = true;
  const ModelShape shape = model_shape(narrow, 64);
  CheckpointInfo info = saved_by(narrow, shape);
  const auto becomes_fp32 = testing::ElementsAre(HasSubstr(
      "--fp32-residual-connection was false when the checkpoint was saved and is true now: "
      "the run goes on with the new value"));
  EXPECT_THAT(plan_resume(info, shape, wide, data_of_run()).warnings, becomes_fp32);
  EXPECT_THAT(plan_resume(saved_by(wide, shape), shape, narrow, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--fp32-residual-connection was true")));
  // A checkpoint of a version that had no such stream.
  auto arguments = nlohmann::json::parse(info.arguments_json);
  arguments.erase("fp32_residual_connection");
  info.arguments_json = arguments.dump();
  EXPECT_THAT(plan_resume(info, shape, wide, data_of_run()).warnings, becomes_fp32);
  EXPECT_THAT(plan_resume(info, shape, narrow, data_of_run()).warnings, testing::IsEmpty());
}

TEST(Resume, WarnsOfMomentsThatAreConverted) {
  const Config fp32 = base_config();
  Config bf16 = fp32;
  bf16.bf16_optimizer_state = true;
  const ModelShape shape = model_shape(fp32, 64);
  CheckpointInfo info = saved_by(fp32, shape);
  const auto converts = testing::ElementsAre(
      HasSubstr("--bf16-optimizer-state was false when the checkpoint was saved and is true now: "
                "Adam's moments are converted"));
  EXPECT_THAT(plan_resume(info, shape, bf16, data_of_run()).warnings, converts);
  EXPECT_THAT(plan_resume(saved_by(bf16, shape), shape, fp32, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--bf16-optimizer-state was true")));
  // A checkpoint of a version that had fp32 moments only.
  auto arguments = nlohmann::json::parse(info.arguments_json);
  arguments.erase("bf16_optimizer_state");
  info.arguments_json = arguments.dump();
  EXPECT_THAT(plan_resume(info, shape, bf16, data_of_run()).warnings, converts);
  EXPECT_THAT(plan_resume(info, shape, fp32, data_of_run()).warnings, testing::IsEmpty());
}

// Options whose change a resumed run neither announces nor refuses by a list.
const std::set<std::string> kNotAnnounced = {
    // They are compared as part of the architecture (architecture_of()).
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels",
    "max_position_embeddings", "train_padded_vocabulary", "layernorm_epsilon", "embed_layernorm",
    "no_bias_gelu_fusion", "untie_embeddings_and_output_weights", "disable_bias_linear",
    "add_qkv_bias", "vocab_size", "normalization", "swiglu", "glu_activation",
    "position_embedding_type", "use_rotary_position_embeddings", "rotary_base", "rotary_percent",
    "rotary_interleaved", "group_query_attention", "num_query_groups",
    // They are compared as part of the learning-rate schedule (reconcile()).
    "lr", "min_lr", "lr_decay_style", "lr_decay_iters", "lr_decay_samples", "lr_warmup_iters",
    "lr_warmup_samples", "lr_warmup_fraction", "lr_decay_tokens", "lr_warmup_tokens",
    "lr_tokens_as_deepspeed", "override_lr_scheduler", "use_checkpoint_lr_scheduler",
    // They are compared as part of the data (compare_data()).
    "vocab_file", "merge_file", "eod_token_id", "unsee",
    // Their values stand in other options, too.
    "curriculum_learning", "data_efficiency_curriculum_learning", "deepspeed_config",
    "exp_avg_dtype", "exp_avg_sq_dtype", "fp8", "fp8_hybrid", "fp8_e4m3",
    // They have had their effect when a run begins.
    "init_method_std", "load", "ckpt_step", "no_load_optim", "finetune", "overwrite",
    "exit_on_missing_checkpoint",
    // No number of a run depends on them but by rounding.
    "micro_batch_size", "make_vocab_size_divisible_by", "pad_vocab_size_to", "device",
    "device_profile", "tensor_model_parallel_size", "pipeline_model_parallel_size",
    "no_scatter_gather_tensors_in_pipeline", "pp_partition_method",
    "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
    "microbatch_group_size_per_virtual_pipeline_stage", "sequence_parallel", "use_tp_pp_dp_mapping",
    "use_distributed_optimizer", "zero_stage", "ddp_bucket_size", "check_weights_interval",
    "distributed_backend", "distributed_timeout_minutes", "gemm_algorithm_cache", "data_cache_path",
    "num_workers", "world_size", "recompute_granularity", "recompute_method",
    "recompute_num_layers", "checkpoint_activations", "recompute_modules", "recompute_activations",
    "logits_chunk", "optimizer_offload",
    // They say when a run ends, what it keeps and what it prints.
    "skip_bad_steps", "exit_interval", "exit_duration_in_mins", "skip_train", "save",
    "save_interval", "async_save", "keep_last", "keep_every", "no_save_optim", "log_interval",
    "log_format", "log_params_norm", "log_throughput", "timing_log_level", "tensorboard_dir",
    "tensorboard_log_interval", "no_log_learning_rate_to_tensorboard",
    "no_log_loss_scale_to_tensorboard", "run_dir", "no_sample_losses", "dry_run", "profile_steps",
    "fp8_shadow_interval", "measure_device", "measure_device_seconds"};

TEST(Resume, KnowsWhatAChangeOfEachOptionDoes) {
  std::set<std::string> options, announced;
  for (const auto& [name, value] : resolved_options(base_config())) options.insert(name);
  for (const AnnouncedArgument& argument : announced_arguments()) announced.insert(argument.name);
  for (const std::string& name : options) {
    EXPECT_NE(announced.contains(name), kNotAnnounced.contains(name))
        << name
        << ": list it in announced_arguments(), or above with the reason why it need not be";
  }
  for (const std::string& name : announced) EXPECT_TRUE(options.contains(name)) << name;
}

}  // namespace
}  // namespace weft
