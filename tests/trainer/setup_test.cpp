// The work between the command line and the first step: vocabulary, dataset sizes, resuming, the
// run manifest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/run_folder/checkpoint_run.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/sha256.h"
#include "kernels/cuda/algorithm_table.h"
#include "kernels/forwarding_backend.h"
#include "tests/indexed_dataset/nested_json.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/model_fixture.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/checkpoint/argument_changes.h"
#include "trainer/config/option_text.h"
#include "trainer/data/loader_plan.h"
#include "trainer/limits.h"
#include "trainer/log/banner.h"
#include "trainer/log/run_manifest.h"
#include "trainer/train_setup.h"
#include "trainer/tune_ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

Config base_config() {
  Config config;
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.seq_length = config.max_position_embeddings.emplace(16);
  config.micro_batch_size = 2;
  config.global_batch_size = 8;
  config.train_iters = 10;
  config.lr = 1e-3;
  config.data_path = {"/nowhere/data_text_document"};
  return config;
}

// Points the environment's vocabularies at `folder` while it lives.
struct Environment {
  explicit Environment(const std::string& folder) {
    setenv("WEFT_GPT2_DIR", folder.c_str(), 1);
    setenv("HOME", folder.c_str(), 1);
  }
  ~Environment() {
    gpt2 ? setenv("WEFT_GPT2_DIR", gpt2->c_str(), 1) : unsetenv("WEFT_GPT2_DIR");
    if (home) setenv("HOME", home->c_str(), 1);
  }
  static std::optional<std::string> get(const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  std::optional<std::string> gpt2 = get("WEFT_GPT2_DIR"), home = get("HOME");
};

TEST(RunVocabulary, ComesFromTheMostParticularSource) {
  const TemporaryFolder folder;
  const Environment environment((folder / "environment").string());
  Config config = base_config();
  config.data_path = {(folder / "data").string()};
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);

  std::filesystem::create_directories(folder / "environment/.cache/weft/gpt2");
  write_file_atomically(folder / "environment/.cache/weft/gpt2/vocab.json", R"({"a":0})");
  // If WEFT_GPT2_DIR is set, no other folder is searched: a mistyped name must not mean another
  // one.
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);
  unsetenv("WEFT_GPT2_DIR");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 1);
  setenv("WEFT_GPT2_DIR", (folder / "environment").c_str(), 1);
  write_file_atomically(folder / "environment/vocab.json", R"({"a":0,"b":1})");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 2);
  write_file_atomically(folder / "data.manifest.json", R"({"vocabulary":{"size":3}})");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 3);
  EXPECT_EQ(find_run_vocabulary(config).source, (folder / "data.manifest.json").string());
  config.vocab_file = (folder / "vocab.json").string();
  EXPECT_THROW(find_run_vocabulary(config), std::system_error);
  write_file_atomically(folder / "vocab.json", R"({"a":0,"b":1,"c":2,"<|endoftext|>":3})");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 4);
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 3);
  config.vocab_size = 50257;
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 50257);
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 3) << "the dataset's, all the same";
}

TEST(RunVocabulary, TheTokenThatEndsDocumentsNeedNotBeTheLast) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.data_path = {(folder / "data").string()};
  config.vocab_file = (folder / "vocab.json").string();
  write_file_atomically(folder / "vocab.json", R"({"<|endoftext|>":0,"a":1,"b":2,"c":3})");
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 0);
  write_file_atomically(folder / "data.manifest.json",
                        R"({"vocabulary":{"size":4,"end_of_document":1}})");
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 1) << "the dataset knows best";
  config.vocab_file.clear();
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 1);
  config.eod_token_id = 2;
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 2);
  config.eod_token_id = 4;
  EXPECT_THAT([&] { find_run_vocabulary(config); },
              testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("the end-of-document token 4, that of --eod-token-id, is outside")));
  config.eod_token_id.reset();
  for (const char* unknown : {"null", "-1", "4", "\"2\"", "18446744073709551615", "1.5"}) {
    write_file_atomically(
        folder / "data.manifest.json",
        R"({"vocabulary":{"size":4,"end_of_document":)" + std::string(unknown) + "}}");
    EXPECT_EQ(find_run_vocabulary(config).end_of_document, 3) << unknown;
  }
}

TEST(RunVocabulary, AnotherFileThanTheDatasetsIsRefused) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.data_path = {(folder / "data").string()};
  write_file_atomically(folder / "right.json", R"({"a":0,"b":1})");
  write_file_atomically(folder / "wrong.json", R"({"a":0,"c":1})");
  const std::string sha256 = sha256_of_file(folder / "right.json");
  write_file_atomically(folder / "data.manifest.json",
                        R"({"vocabulary":{"size":2,"vocab_file":"/v.json","vocab_sha256":")" +
                            sha256 + R"(","merge_file":"/m.txt","merge_sha256":"00"}})");
  EXPECT_EQ(find_run_vocabulary(config).vocab_sha256, sha256);
  EXPECT_EQ(find_run_vocabulary(config).merge_file, "/m.txt");
  config.vocab_file = (folder / "right.json").string();
  EXPECT_EQ(find_run_vocabulary(config).vocab_sha256, sha256);
  EXPECT_EQ(find_run_vocabulary(config).merge_sha256, "00");
  config.vocab_file = (folder / "wrong.json").string();
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);
  config.vocab_file.clear();
  config.vocab_size = 1;
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);
  config.vocab_size = 3;
  EXPECT_EQ(find_run_vocabulary(config).vocab_sha256, sha256);
}

TEST(RunVocabulary, AFileThatIsNoVocabularyIsBadInput) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.vocab_file = (folder / "vocab.json").string();
  write_file_atomically(config.vocab_file, "[1, 2]");
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
  write_file_atomically(config.vocab_file, "{\"a\":");
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
  write_file_atomically(config.vocab_file, "{\"a\": " + nested_json(200'000) + "}");
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
}

TEST(RunVocabulary, IsNotTakenFromAManifestThatDoesNotSay) {
  const TemporaryFolder folder;
  const Environment environment((folder / "environment").string());
  Config config = base_config();
  config.data_path = {(folder / "data").string()};
  const auto manifest = folder / "data.manifest.json";
  for (const char* text : {"[]", R"({"vocabulary": 3})", R"({"vocabulary": {"size": "big"}})"}) {
    write_file_atomically(manifest, text);
    EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument) << text;
  }
  write_file_atomically(manifest, nested_json(200'000));
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
}

TEST(DatasetPrefix, LeavesOutWeightAndSuffix) {
  Config config = base_config();
  config.data_path = {"1.0", "folder/data_text_document.bin"};
  EXPECT_THAT(dataset_prefixes(config), testing::ElementsAre("folder/data_text_document"));
}

// Sizes that Megatron-LM printed: 146484375 samples, batch 288, evaluation of 40 batches every 1000
// steps.
TEST(TargetSizes, MatchMegatron) {
  Config config = base_config();
  config.train_iters.reset();
  config.train_samples = 146484375;
  config.micro_batch_size = 1;
  config.global_batch_size = 288;
  config.eval_iters = 40;
  config.eval_interval = 1000;
  const DatasetTargetSizes sizes = target_sizes(config, BatchSchedule(config));
  EXPECT_EQ(sizes.train_samples, 146484375);
  EXPECT_EQ(sizes.valid_samples, 5863680);
  EXPECT_EQ(sizes.test_samples, 11520);
}

// tr11's ramp-up lasts 115311 iterations: 116 validations.
TEST(TargetSizes, FollowTheRampUp) {
  Config config = base_config();
  config.train_iters.reset();
  config.train_samples = 220'000'000;
  config.micro_batch_size = 1;
  config.global_batch_size = 2048;
  config.rampup_batch_size = {192, 16, 9'765'625};
  config.eval_iters = 1;
  config.eval_interval = 1000;
  EXPECT_EQ(target_sizes(config, BatchSchedule(config)).valid_samples, 116 * 2048);
}

DataIdentity data_of_run() {
  DataIdentity data;
  data.datasets.push_back({.prefix = "/data/p",
                           .num_documents = 3,
                           .num_sequences = 3,
                           .num_tokens = 100,
                           .bin_bytes = 200,
                           .idx_xxh3 = 1,
                           .bin_xxh3 = 2});
  data.vocabulary = {.num_tokens = 64,
                     .source = "s",
                     .vocab_file = "/v/vocab.json",
                     .vocab_sha256 = "aa",
                     .merge_file = "/v/merges.txt",
                     .merge_sha256 = "bb"};
  return data;
}

CheckpointInfo saved_by(const Config& config, const ModelShape& shape) {
  LrSchedule lr(lr_settings(config));
  lr.advance(24);
  return checkpoint_info({.scalars = {.iteration = 3, .consumed_samples = 24, .adam_step = 3},
                          .consumed_valid_samples = 16,
                          .lr = lr},
                         shape, config, data_of_run());
}

TEST(Resume, GoesOnWhereTheCheckpointEnded) {
  const Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const Resume resume = plan_resume(saved_by(config, shape), shape, config, data_of_run());
  EXPECT_TRUE(resume.load_optimizer);
  EXPECT_EQ(resume.state.scalars.iteration, 3);
  EXPECT_EQ(resume.state.scalars.adam_step, 3);
  EXPECT_EQ(resume.state.consumed_valid_samples, 16);
  EXPECT_EQ(resume.state.lr.position().samples, 24);
}

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
  config.data_path.clear();
  config.train_weighted_split_paths = {"train: 0.5 0:0.9 s, 0.5 0:0.9 m"};
  config.curriculum = {.schedule_type = "fixed_discrete", .difficulty = {8, 16}, .max_step = {10}};
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.train_weighted_split_paths = {"train: 0.9 0:0.9 s, 0.1 0:0.9 m"};
  config.curriculum.max_step = {7};
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--train-weighted-split-paths was"),
                                   HasSubstr("--curriculum-max-step was [10]")));
}

TEST(Resume, WarnsOfEvaluationsThatTakeOtherSamples) {
  Config config = base_config();
  config.data_path.clear();
  config.train_data_path = {"/data/p"};
  config.valid_data_path = {"0.5", "/data/p", "0.5", "/data/q"};
  config.test_data_path = {"/data/p"};
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  // The only dataset of a run may lie elsewhere. Of several, one may have taken the place of another.
  Config swapped = config;
  swapped.train_data_path = {"/data/q"};
  swapped.test_data_path = {"/data/q"};
  EXPECT_THAT(plan_resume(info, shape, swapped, data_of_run()).warnings,
              testing::UnorderedElementsAre(HasSubstr("--train-data-path was"),
                                            HasSubstr("--test-data-path was")));
  Config alone = base_config();
  alone.data_path = {"/data/p"};
  const CheckpointInfo of_one = saved_by(alone, shape);
  alone.data_path = {"/moved/p"};
  EXPECT_THAT(plan_resume(of_one, shape, alone, data_of_run()).warnings, testing::IsEmpty());
  config.valid_data_path[0] = "0.9";
  config.eval_iters += 1;
  config.eval_interval += 1;
  config.full_validation = true;
  EXPECT_THAT(
      plan_resume(info, shape, config, data_of_run()).warnings,
      testing::ElementsAre(HasSubstr("--valid-data-path was"), HasSubstr("--eval-iters was"),
                           HasSubstr("--eval-interval was"), HasSubstr("--full-validation was")));
  Config groups = base_config();
  groups.valid_weighted_split_paths = {"v: 1 0.9:1 s"};
  groups.test_weighted_split_paths = {"t: 1 0.9:1 s"};
  const CheckpointInfo of_groups = saved_by(groups, shape);
  groups.valid_weighted_split_paths = {"v: 1 0.8:1 s"};
  groups.test_weighted_split_paths = {"t: 1 0.8:1 s"};
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
    // They have had their effect when a run begins.
    "init_method_std", "load", "ckpt_step", "no_load_optim", "finetune", "overwrite",
    "exit_on_missing_checkpoint",
    // No number of a run depends on them but by rounding.
    "micro_batch_size", "make_vocab_size_divisible_by", "pad_vocab_size_to", "device",
    "device_profile", "tensor_model_parallel_size", "pipeline_model_parallel_size",
    "pp_partition_method", "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank", "microbatch_group_size_per_virtual_pipeline_stage",
    "sequence_parallel", "use_tp_pp_dp_mapping", "use_distributed_optimizer", "zero_stage",
    "ddp_bucket_size", "check_weights_interval", "distributed_backend",
    "distributed_timeout_minutes", "gemm_algorithm_cache", "data_cache_path", "num_workers",
    "world_size", "recompute_granularity", "recompute_method", "recompute_num_layers",
    "checkpoint_activations", "recompute_modules", "recompute_activations", "logits_chunk",
    // They say when a run ends, what it keeps and what it prints.
    "skip_bad_steps", "exit_interval", "exit_duration_in_mins", "skip_train", "save",
    "save_interval", "async_save", "keep_last", "keep_every", "no_save_optim", "log_interval",
    "log_format", "log_params_norm", "log_throughput", "timing_log_level", "tensorboard_dir",
    "tensorboard_log_interval", "no_log_learning_rate_to_tensorboard",
    "no_log_loss_scale_to_tensorboard", "run_dir", "no_sample_losses", "dry_run", "profile_steps",
    "measure_device", "measure_device_seconds"};

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

TEST(Resume, AnnouncesWhatInspectTakesForDecisive) {
  std::set<std::string> decisive(decisive_arguments().begin(), decisive_arguments().end());
  for (const AnnouncedArgument& argument : announced_arguments()) {
    const std::string name = argument.name;
    const bool decides = argument.effect == ChangeEffect::kMovesSamples ||
                         argument.effect == ChangeEffect::kMovesEvaluations ||
                         name.ends_with("batch_size") || name.starts_with("curriculum_") ||
                         name == "step_batch_size_schedule";
    EXPECT_EQ(decisive.erase(name) == 1, decides) << name;
  }
  // A cyclic order depends on the one, and the other is compared by its bytes.
  EXPECT_EQ(decisive, (std::set<std::string>{"micro_batch_size", "unsee"}));
}

TEST(Resume, TheCyclicOrderKeepsTheSizesThatItWasBegunWith) {
  Config config = base_config();
  config.dataloader_type = "cyclic";
  const ModelShape shape = model_shape(config, 64);
  // Versions that did not keep them demanded those of the run.
  const CheckpointInfo older = saved_by(config, shape);
  const CyclicOptions begun{.micro_batch_size = config.micro_batch_size,
                            .data_parallel_size = config.data_parallel_size()};
  Config other = config;
  other.world_size *= 2;
  other.micro_batch_size *= 2;
  Resume resume = plan_resume(older, shape, other, data_of_run());
  EXPECT_EQ(resume.state.cyclic, begun);
  EXPECT_THAT(resume.warnings, testing::IsEmpty());
  // They stay the same over a second resume.
  const CheckpointInfo again = checkpoint_info(resume.state, shape, other, data_of_run());
  EXPECT_EQ(plan_resume(again, shape, other, data_of_run()).state.cyclic, begun);
  other.finetune = true;
  EXPECT_EQ(plan_resume(again, shape, other, data_of_run()).state.cyclic, std::nullopt);
  EXPECT_EQ(plan_resume(saved_by(base_config(), shape), shape, config, data_of_run()).state.cyclic,
            std::nullopt)
      << "a run that was read in order begins the cyclic one";
}

TEST(Resume, BytesThatWereReplacedUnderTheirNameAreRefused) {
  const Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  const auto message = [&](const DataIdentity& ours) {
    try {
      plan_resume(info, shape, config, ours);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  DataIdentity ours = data_of_run();
  EXPECT_EQ(message(ours), "");
  ours.datasets[0].bin_xxh3 = 3;
  EXPECT_THAT(message(ours), testing::AllOf(HasSubstr("/data/p was replaced or changed"),
                                            HasSubstr("3 documents, 100 tokens")));
  ours.datasets[0].prefix = "/data/other";
  EXPECT_EQ(message(ours), "") << "another dataset was asked for";
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("/data/other")));
  ours.datasets[0].bin_xxh3 = 2;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings, testing::IsEmpty())
      << "a copy of the same bytes";
}

TEST(Resume, AVocabularyOfOtherEntriesIsRefused) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  DataIdentity ours = data_of_run();
  ours.vocabulary.merge_sha256 = "cc";
  EXPECT_THROW(plan_resume(info, shape, config, ours), std::runtime_error);
  config.finetune = true;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("the same token ids stand for other text")));
  config.finetune = false;
  ours.vocabulary.vocab_sha256 = ours.vocabulary.merge_sha256 = "";
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings, testing::IsEmpty());
}

TEST(Resume, AnotherEndOfDocumentsIsRefusedUnlessToldWhereTheRunLooksForIt) {
  Config config = base_config();
  config.eod_mask_loss = true;
  const ModelShape shape = model_shape(config, 64);
  CheckpointInfo info = saved_by(config, shape);
  info.data.vocabulary.end_of_document = 66;
  info.data.vocabulary.end_of_document_source = "the last one of --vocab-size";
  DataIdentity ours = data_of_run();
  ours.vocabulary.end_of_document = 63;
  ours.vocabulary.end_of_document_source = "the last one of tiny";
  EXPECT_THAT([&] { plan_resume(info, shape, config, ours); },
              testing::ThrowsMessage<std::runtime_error>(testing::AllOf(
                  HasSubstr("documents ended with token 66, the last one of --vocab-size, "
                            "when the checkpoint was saved and end with token 63, the last "
                            "one of tiny, now"),
                  HasSubstr("give --eod-token-id 66 to go on as before"))));
  config.eod_token_id = 63;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::Contains(HasSubstr("now: the run goes on with the new value")));
  config.eod_token_id.reset();
  info.data.vocabulary.end_of_document = -1;  // of a version that did not save it
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings, testing::IsEmpty());
  info.data.vocabulary.num_tokens = 67;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("It may have been 66, the last one of s, and is 63")));
  config.eod_mask_loss = false;
  info.data.vocabulary.end_of_document = 66;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("--eod-mask-loss was true")));
}

TEST(DatasetWatch, TellsWhatItCannotCompare) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "large").string();
  constexpr int64_t kTokens = 40 << 20;  // 80 MiB
  {
    DatasetWriter writer(prefix, TokenType::kUInt16);
    const std::vector<uint16_t> tokens(kTokens);
    const auto length = static_cast<int32_t>(kTokens);
    writer.append_documents(std::as_bytes(std::span(tokens)), {&length, 1});
    writer.finish();
  }
  DatasetWatch watch(prefix);
  watch.check_untouched();
  EXPECT_EQ(watch.check(), "");
  const auto write_at = [&](int64_t offset_bytes) {
    std::fstream bin(prefix + ".bin", std::ios::binary | std::ios::in | std::ios::out);
    bin.seekp(offset_bytes);
    bin.write("x", 1);
  };
  write_at((1 << 20) + 1000);  // between the first two of 64 pieces
  EXPECT_THROW(watch.check_untouched(), std::runtime_error);
  EXPECT_THAT(watch.check(), HasSubstr("whether the other 16777216 bytes are, nothing tells"));
  EXPECT_EQ(watch.check(), "") << "it is told once";
  write_at(0);
  EXPECT_THROW(watch.check(), std::runtime_error);
}

TEST(Resume, AnotherArchitectureIsRefusedWithEveryDifference) {
  Config config = base_config();
  const CheckpointInfo info = saved_by(config, model_shape(config, 64));
  config.num_layers = 3;
  config.hidden_size = 64;
  try {
    plan_resume(info, model_shape(config, 64), config, data_of_run());
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("num_layers"), HasSubstr("hidden_size")));
  }
}

TEST(Resume, AnotherScheduleIsRefusedUnlessTold) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.lr = 2e-3;
  EXPECT_THROW(plan_resume(info, shape, config, data_of_run()), std::invalid_argument);
  config.override_lr_scheduler = true;
  EXPECT_EQ(plan_resume(info, shape, config, data_of_run()).state.lr.settings().max_lr, 2e-3);
  config.override_lr_scheduler = false;
  config.use_checkpoint_lr_scheduler = true;
  EXPECT_EQ(plan_resume(info, shape, config, data_of_run()).state.lr.settings().max_lr, 1e-3);
}

TEST(Resume, FinetuningAndImportedWeightsStartAtIterationZero) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.finetune = true;
  EXPECT_EQ(plan_resume(info, shape, config, data_of_run()).state.scalars.iteration, 0);
  EXPECT_FALSE(plan_resume(info, shape, config, data_of_run()).load_optimizer);
  config.finetune = false;
  CheckpointInfo imported;
  imported.architecture = info.architecture;
  imported.has_optimizer = false;
  EXPECT_EQ(plan_resume(imported, shape, config, data_of_run()).state.scalars.iteration, 0);
  EXPECT_FALSE(plan_resume(imported, shape, config, data_of_run()).load_optimizer);
}

TEST(Resume, WithoutTheOptimizerItsStepsStartAfresh) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  config.no_load_optim = true;
  const Resume resume = plan_resume(saved_by(config, shape), shape, config, data_of_run());
  EXPECT_FALSE(resume.load_optimizer);
  EXPECT_EQ(resume.state.scalars.iteration, 3);
  EXPECT_EQ(resume.state.scalars.adam_step, 0);
  config.no_load_optim = false;
  CheckpointInfo weights = saved_by(config, shape);
  weights.has_optimizer = false;  // --no-save-optim
  EXPECT_FALSE(plan_resume(weights, shape, config, data_of_run()).load_optimizer);
  EXPECT_EQ(plan_resume(weights, shape, config, data_of_run()).state.scalars.iteration, 3);
}

TEST(Resume, AMissingCheckpointIsAnErrorWhereAskedFor) {
  const TemporaryFolder folder;
  Config config = base_config();
  EXPECT_FALSE(checkpoint_to_load(config));
  config.load = (folder / "none").string();
  EXPECT_FALSE(checkpoint_to_load(config));
  config.exit_on_missing_checkpoint = true;
  EXPECT_THROW(checkpoint_to_load(config), std::runtime_error);
  config.ckpt_step = 40;
  EXPECT_EQ(checkpoint_to_load(config)->iteration, 40);
}

const MemoryAdvice kNoAdvice = [](int64_t) { return std::string(); };

TEST(Memory, APlanLargerThanTheDeviceIsRefusedWithBothNumbers) {
  const auto backend = create_cpu_backend(1);
  MemoryPlan plan;
  Tensor tensor;
  plan.add(MemoryClass::kParameters, "huge", &tensor, DType::kFloat32, {int64_t{1} << 50});
  EXPECT_THROW(check_memory(plan, *backend, {}, kNoAdvice), LimitExceeded);
}

TEST(Memory, ASnapshotThatDoesNotFitIntoTheHostIsRefusedWithBothNumbers) {
  check_snapshot_memory(int64_t{3} << 30, int64_t{3} << 30, "node3");
  try {
    check_snapshot_memory(int64_t{3} << 30, int64_t{2} << 30, "node3");
    FAIL() << "no exception";
  } catch (const LimitExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("--async-save needs 3.00 GiB of memory on node3"));
    EXPECT_THAT(error.what(), HasSubstr("2.00 GiB are free"));
  }
}

// A backend that times products as a GPU does: what its table lacks gets this rank's own choice.
class TimingBackend final : public ForwardingBackend {
 public:
  TimingBackend(int rank, bool has_memory, const std::string& gpu, const std::string& file = "")
      : ForwardingBackend(create_cpu_backend(1)),
        rank_(rank),
        has_memory_(has_memory),
        table_(file),
        end_of_keys_(",workspace=64MiB,cublaslt=1,gpu=" + gpu) {}
  std::string tune(const WorkspaceShape&) override {
    if (!has_memory_) return "GEMM algorithms are not timed\n";
    for (const char* product : {"m=1", "m=2"}) {
      const std::string key = product + end_of_keys_;
      if (!table_.find(key)) table_.add(key, std::to_string(rank_));
    }
    return "";
  }
  std::string algorithms() const override { return table_.text_in_use(); }
  void use_algorithms(const std::string& text) override { table_.take(text); }
  // As Gemm chooses while a run goes on; "" is the library's own choice.
  std::string choice() { return table_.find_settled("m=1" + end_of_keys_).value_or(""); }

 private:
  const int rank_;
  const bool has_memory_;
  cuda::AlgorithmTable table_;
  const std::string end_of_keys_;
};

// Returns the choices of all ranks for one product, those of `short_ranks` without memory to time. With
// files each rank has one of its own, from earlier runs on its node.
std::vector<std::string> tuned(const std::set<int>& short_ranks, bool has_files = false) {
  const TemporaryFolder folder;
  std::vector<std::string> choices(3);
  run_ranks(3, [&](HostGroup& ranks) {
    const std::string rank = std::to_string(ranks.rank());
    const std::string file = has_files ? (folder / rank).string() : "";
    if (has_files) {
      write_file_atomically(
          file, "weft-gemm-algorithms 1\nm=1,workspace=64MiB,cublaslt=1,gpu=H200 a" + rank + "\n");
    }
    TimingBackend backend(ranks.rank(), short_ranks.count(ranks.rank()) == 0, "H200", file);
    Trainer trainer(backend, small_options());
    tune_on_first_rank(trainer, backend, ranks);
    choices[static_cast<size_t>(ranks.rank())] = backend.choice();
  });
  return choices;
}

TEST(Tuning, AllRanksUseTheChoicesOfTheLowestThatHasMemoryToTime) {
  EXPECT_THAT(tuned({}), testing::Each("0"));
  EXPECT_THAT(tuned({0}), testing::Each("1")) << "two ranks have timed, each for itself";
  EXPECT_THAT(tuned({1}), testing::Each("0"));
  EXPECT_THAT(tuned({0, 1}), testing::Each("2"));
  EXPECT_THAT(tuned({0, 1, 2}), testing::Each("")) << "the library's own choice, on all";
}

TEST(Tuning, TheFileOfOneNodeIsFollowedByAllRanksOrByNone) {
  EXPECT_THAT(tuned({}, true), testing::Each("a0"));
  EXPECT_THAT(tuned({0}, true), testing::Each("a1"));
  EXPECT_THAT(tuned({0, 1}, true), testing::Each("a2"));
  EXPECT_THAT(tuned({0, 1, 2}, true), testing::Each("")) << "nobody has timed";
}

TEST(Tuning, RanksWithOtherGpusAreRefused) {
  run_ranks(2, [](HostGroup& ranks) {
    TimingBackend backend(ranks.rank(), true, ranks.rank() == 0 ? "H200" : "H100");
    Trainer trainer(backend, small_options());
    EXPECT_THROW(tune_on_first_rank(trainer, backend, ranks), ConfigurationDiffers);
  });
}

// Each of three ranks would fit, but they share their host's memory.
TEST(Memory, TheRanksOfAHostAreAddedUp) {
  run_ranks(3, [](HostGroup& ranks) {
    const int64_t gib = int64_t{1} << 30;
    EXPECT_NO_THROW(check_memory_of_hosts(ranks, 2 * gib, 6 * gib));
    // The one that looked last sees least.
    const int64_t seen_free = (ranks.rank() == 2 ? 5 : 8) * gib;
    try {
      check_memory_of_hosts(ranks, 2 * gib, seen_free);
      ADD_FAILURE() << "no exception";
    } catch (const LimitExceeded& error) {
      EXPECT_THAT(error.what(), HasSubstr("the 3 ranks on " + ranks.host_of(0) +
                                          " need 6.00 GiB of its memory together"));
      EXPECT_THAT(error.what(), HasSubstr("5.00 GiB are free"));
    }
  });
}

TEST(Memory, TheIndexOfTheSamplesIsCountedBySamplesAndEpochs) {
  const DatasetIdentity dataset{
      .prefix = "p", .num_documents = 100, .num_sequences = 100, .num_tokens = 10'000};
  EXPECT_EQ(sample_index_bytes({}, {&dataset, 1}, 100), 4 * 100);
  EXPECT_EQ(sample_index_bytes({.train_samples = 1000}, {&dataset, 1}, 100),
            4 * 100 * 11 + 12 * 1000);
  const auto backend = create_cpu_backend(1);
  EXPECT_THROW(check_memory(MemoryPlan(), *backend, {.index_bytes = int64_t{1} << 50}, kNoAdvice),
               LimitExceeded);
}

TEST(Memory, TheSlotsOfTheLoadersAreCountedByGroup) {
  Config config = base_config();
  config.data_path.clear();
  config.train_weighted_split_paths = {"t: 1 0:1 t"};
  config.valid_weighted_split_paths = {"a: 1 0:1 p", "b: 1 0:1 q"};
  config.micro_batch_size = 2;
  config.global_batch_size = 16;
  config.seq_length = 100;
  config.world_size = 2;
  const auto bytes = [&](int64_t rows, int64_t arrays) { return 4 * 4 * 100 * rows * arrays; };
  const DatasetTargetSizes sizes{.train_samples = 100, .valid_samples = 10, .test_samples = 0};
  LoaderPlan plan = plan_loaders(config, 32, sizes);
  EXPECT_EQ(plan.train_bytes, bytes(16, 2)) << "half of the largest batch";
  EXPECT_EQ(plan.valid_bytes, 2 * bytes(8, 2));
  EXPECT_EQ(plan.test_bytes, 0);
  EXPECT_EQ(plan.num_loaders, 3);
  EXPECT_EQ(plan.num_threads(2), 9);
  config.unsee = "f";
  config.full_validation = true;
  config.reset_attention_mask = true;
  plan = plan_loaders(config, 32, sizes);
  EXPECT_EQ(plan.train_bytes, bytes(16, 5));
  EXPECT_EQ(plan.valid_bytes, 2 * bytes(8, 5));
  const auto backend = create_cpu_backend(1);
  EXPECT_THAT(
      [&] { check_memory(MemoryPlan(), *backend, {.slot_bytes = int64_t{1} << 50}, kNoAdvice); },
      testing::ThrowsMessage<LimitExceeded>(HasSubstr("slots of the data loaders")));
}

TEST(RunManifest, HoldsTheArgumentsThatMapIterationsToSamples) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.fill_defaults();
  write_run_manifest(folder / "run", {.config = config,
                                      .device = "CPU",
                                      .dataset_prefix = "/data/p",
                                      .data = data_of_run(),
                                      .padded_vocabulary_size = 128,
                                      .num_parameters = 5,
                                      .num_iterations = 10,
                                      .train_samples = 80,
                                      .valid_samples = 3,
                                      .test_samples = 2,
                                      .resumed_iteration = 0});
  const std::string text = read_file(folder / "run/run_manifest.json");
  for (const char* field :
       {"\"arguments\": {", "\"dataset_prefix\": \"/data/p\"", "\"global_batch_size\": 8",
        "\"seq_length\": 16", "\"train_iters\": 10", "\"train_samples\": null",
        "\"split\": \"969,30,1\"", "\"documents\": 3", "\"vocab_sha256\": \"aa\"", "\"seed\": 1234",
        "\"eval_interval\": 1000"}) {
    EXPECT_THAT(text, HasSubstr(field));
  }
}

TEST(Banner, StartsWithTheWorldAndNamesThePadding) {
  Config config = base_config();
  config.bf16 = true;
  config.fill_defaults();
  const std::string text =
      start_banner(config, {"--use-flash-attn has no effect: attention is always fused"},
                   BatchSchedule(config), {50257, "vocab.json"});
  EXPECT_THAT(
      text, testing::StartsWith(
                "using world size: 1, data-parallel-size: 1, tensor-model-parallel size: 1, "
                "pipeline-model-parallel size: 1 \naccumulate and all-reduce gradients in fp32 for "
                "bfloat16 data type.\nusing bfloat16 for parameters ...\n"));
  EXPECT_THAT(text, HasSubstr("\nsetting number of micro-batches to constant 4\n"));
  EXPECT_THAT(
      text, HasSubstr("\n > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n"));
  EXPECT_THAT(text, HasSubstr("\n> setting random seeds to 1234 ...\n"));
}

}  // namespace
}  // namespace weft
