// Curricula from flags and from DeepSpeed's file: what is read, and what is refused in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"
#include "trainer/command_line/command_line.h"
#include "trainer/problems/problems.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CurriculumConfig : public testing::Test {
 protected:
  static ParsedArguments parse(const std::string& more) {
    std::istringstream in(
        "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
        "--max-position-embeddings 16 --micro-batch-size 2 --train-iters 10 --lr 1e-3 " +
        more);
    ParsedArguments parsed = parse_arguments({std::istream_iterator<std::string>(in), {}});
    for (const std::string& problem : problems_of(parsed.config))
      parsed.problems.push_back(problem);
    return parsed;
  }
  static std::vector<std::string> problems(const std::string& more) {
    return parse("--data-path my_text_document " + more).problems;
  }
  ParsedArguments parse_file(const std::string& json, const std::string& more = "") {
    const std::string file = (folder_ / "ds.json").string();
    write_file_atomically(file, json);
    return parse("--data-path my_text_document --deepspeed_config " + file + " " + more);
  }

  TemporaryFolder folder_;
};

constexpr const char* kLinear =
    "--curriculum-schedule-type fixed_linear --curriculum-min-difficulty 8 "
    "--curriculum-total-step 5 ";

TEST_F(CurriculumConfig, FlagsMakeACurriculum) {
  const ParsedArguments parsed = parse(std::string("--data-path x ") + kLinear);
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.config.length_curriculum().length(1), 8);
  EXPECT_EQ(parsed.config.length_curriculum().length(5), 16);
  EXPECT_THAT(problems("--curriculum-schedule-type fixed_discrete --curriculum-difficulty 4 8 16 "
                       "--curriculum-max-step 2 5 --curriculum-learning"),
              IsEmpty());
}

TEST_F(CurriculumConfig, WhatDoesNotGoTogetherIsRefused) {
  const std::string linear = kLinear;
  for (const auto& [flags, message] :
       {std::pair<std::string, std::string>{
            "--curriculum-learning", "--curriculum-learning needs --curriculum-schedule-type"},
        {"--curriculum-min-difficulty 8",
         "options of a curriculum are given, but no --curriculum-schedule-type"},
        {linear + "--curriculum-max-difficulty 32",
         "--curriculum-max-difficulty 32 is more than --seq-length 16"},
        {linear + "--curriculum-mode reshape --dataloader-type cyclic",
         "--curriculum-mode reshape takes all tokens of a sample one after the other"},
        {"--lr-warmup-tokens 10", "--lr-warmup-tokens 10 needs --lr-decay-tokens"},
        {"--lr-tokens-as-deepspeed", "--lr-tokens-as-deepspeed needs --lr-decay-tokens"},
        {"--lr-decay-tokens 100 --lr-warmup-tokens 10 --lr-warmup-iters 2",
         "--lr-warmup-tokens excludes --lr-warmup-iters"},
        {"--lr-decay-tokens 100 --lr-warmup-tokens 100",
         "--lr-warmup-tokens 100 must be less than --lr-decay-tokens 100"},
        {"--lr-decay-tokens 100 --lr-decay-style inverse-square-root",
         "--lr-decay-tokens goes with --lr-decay-style linear or cosine"},
        {"--train-tokens 0", "--train-tokens must be positive (got 0)"}}) {
    EXPECT_THAT(problems(flags), ElementsAre(HasSubstr(message))) << flags;
  }
  EXPECT_THAT(problems(linear + "--step-batch-size-schedule 0:2"),
              testing::Contains(HasSubstr("--step-batch-size-schedule counts tokens of whole")));
}

TEST_F(CurriculumConfig, EveryLengthMustDivideOverRanksThatShareSequences) {
  ParsedArguments parsed = parse(
      "--data-path x --tensor-model-parallel-size 4 --sequence-parallel "
      "--curriculum-schedule-type fixed_discrete --curriculum-difficulty 8 10 13 16 "
      "--curriculum-max-step 2 5 7");
  parsed.config.world_size = 4;
  EXPECT_THAT(problems_of(parsed.config),
              ElementsAre(HasSubstr("--micro-batch-size 2 times the 13 tokens of the curriculum's "
                                    "sequences from iteration 6 on is not a multiple of "
                                    "--tensor-model-parallel-size 4")));
  parsed.config.curriculum.difficulty[2] = 14;
  EXPECT_THAT(problems_of(parsed.config), IsEmpty());
}

TEST_F(CurriculumConfig, ChangesOfTheBlendCountWhatTheModeKeeps) {
  const std::string schedule = (folder_ / "blends.json").string();
  const std::string linear = kLinear;
  for (const auto& [unit, mode, message] :
       {std::tuple{"from_tokens", "truncate", "a truncating curriculum trains fewer tokens"},
        {"from_samples", "reshape", "a reshaping curriculum makes several rows of a sample"}}) {
    write_file_atomically(schedule,
                          std::string("[{\"") + unit + "\": 100, \"blend\": \"0.5 a 0.5 b\"}]");
    const std::string flags = "--data-path 0.3 a 0.7 b --blend-schedule " + schedule + " " +
                              linear + "--curriculum-mode ";
    EXPECT_THAT(parse(flags + mode).problems, ElementsAre(HasSubstr(message)));
    const std::string other = std::string(mode) == "reshape" ? "truncate" : "reshape";
    EXPECT_THAT(parse(flags + other).problems, IsEmpty());
  }
}

TEST_F(CurriculumConfig, DeepSpeedsFileSetsOptions) {
  const ParsedArguments parsed = parse_file(R"({
    "train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5,
    "bf16": {"enabled": true}, "fp16": {"enabled": false}, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}},
    "steps_per_print": 2000, "wall_clock_breakdown": false,
    "curriculum_learning": {"enabled": true, "curriculum_type": "seqlen", "min_difficulty": 4,
      "max_difficulty": 16, "schedule_type": "fixed_root",
      "schedule_config": {"total_curriculum_step": 50, "difficulty_step": 2, "root_degree": 3}}})");
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.config.global_batch_size, 16);
  EXPECT_EQ(parsed.config.clip_grad, 0.5F);
  EXPECT_TRUE(parsed.config.bf16);
  EXPECT_EQ(parsed.config.zero_stage, 1);
  EXPECT_TRUE(parsed.config.optimizer_offload);
  const CurriculumOptions& curriculum = parsed.config.curriculum;
  EXPECT_EQ(curriculum.schedule_type, "fixed_root");
  EXPECT_EQ(curriculum.min_difficulty, 4);
  EXPECT_EQ(curriculum.max_difficulty, 16);
  EXPECT_EQ(curriculum.total_step, 50);
  EXPECT_EQ(curriculum.difficulty_step, 2);
  EXPECT_EQ(curriculum.root_degree, 3);
  EXPECT_EQ(parsed.config.length_curriculum().length(50), 16);
  EXPECT_THAT(parsed.notes,
              ElementsAre("\"steps_per_print\" of --deepspeed_config has no effect here",
                          "\"wall_clock_breakdown\" of --deepspeed_config has no effect here"));
}

TEST_F(CurriculumConfig, DeepSpeedsFileSetsTheLossScale) {
  const auto config_of = [&](const std::string& fp16, const std::string& flags = "") {
    const ParsedArguments parsed = parse_file(R"({"fp16": )" + fp16 + "}", flags);
    EXPECT_THAT(parsed.problems, IsEmpty()) << fp16;
    return parsed.config;
  };
  const Config dynamic = config_of(R"({"enabled": true, "loss_scale": 0, "loss_scale_window": 500,
    "hysteresis": 3, "min_loss_scale": 2, "initial_scale_power": 12})");
  EXPECT_TRUE(dynamic.fp16);
  EXPECT_FALSE(dynamic.loss_scale);
  EXPECT_EQ(dynamic.initial_loss_scale, 4096);
  EXPECT_EQ(dynamic.min_loss_scale, 2);
  EXPECT_EQ(dynamic.loss_scale_window, 500);
  EXPECT_EQ(dynamic.hysteresis, 3);
  EXPECT_EQ(config_of(R"({"enabled": true, "loss_scale": 128.0})").loss_scale, 128);
  EXPECT_EQ(config_of(R"({"enabled": true, "auto_cast": false})").initial_loss_scale, 4294967296);
  EXPECT_FALSE(config_of(R"({"enabled": false, "loss_scale": 128})").fp16);
  // In BigScience's scripts DeepSpeed's 0 rules, and Megatron's 12 is without effect.
  EXPECT_THAT(
      parse_file(R"({"fp16": {"enabled": true, "loss_scale": 0}})", "--fp16 --loss-scale 12")
          .problems,
      ElementsAre(
          HasSubstr("\"loss_scale\" is 0 and --loss-scale is 12.0: leave one of them out")));
  EXPECT_THAT(parse_file(R"({"fp16": {"enabled": true, "initial_scale_power": 12}})",
                         "--initial-loss-scale 65536")
                  .problems,
              ElementsAre(HasSubstr(
                  "\"initial_scale_power\" is 4096.0 and --initial-loss-scale is 65536.0")));
}

TEST_F(CurriculumConfig, DeepSpeedsFileAndTheCommandLineMustAgree) {
  EXPECT_THAT(
      parse_file(R"({"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0})",
                 "--clip-grad 1.0")
          .problems,
      ElementsAre(HasSubstr(
          "\"train_micro_batch_size_per_gpu\" is 4 and --micro-batch-size is 2: leave one")));
  EXPECT_THAT(parse_file(R"({"bf16": {"enabled": false}})", "--bf16").problems,
              ElementsAre(HasSubstr("\"enabled\" is false and --bf16 is true")));
}

TEST_F(CurriculumConfig, WhatDeepSpeedsFileMayNotSayIsNamed) {
  for (const auto& [json, message] :
       {std::pair<std::string, std::string>{
            R"({"fp16": {"enabled": true, "consecutive_hysteresis": true}})",
            "fp16.consecutive_hysteresis is not built"},
        {R"({"fp16": {"enabled": true, "initial_scale_power": 200}})",
         "--initial-loss-scale must be positive and at most 2^127"},
        {R"({"fp16": {"enabled": true, "initial_scale_power": 4294967312}})",
         "--initial-loss-scale must be positive and at most 2^127"},
        {R"({"train_batch_size": 18446744073709551615})",
         "\"train_batch_size\" is 18446744073709551615, which is no value"},
        {R"({"optimizer": {"type": "Adam"}})", "\"optimizer\" is not supported"},
        {R"({"train_batch_size": "16"})", "\"train_batch_size\" is \"16\", which is no value"},
        {R"({"curriculum_learning": 1})", "\"curriculum_learning\" is 1, it should be an object"},
        {R"({"curriculum_learning": {"enabled": true, "schedule_type": "custom"}})",
         "schedule-type custom is none of"},
        {R"({"curriculum_learning": {"enabled": true, "curriculum_type": "voc",
             "schedule_type": "fixed_discrete",
             "schedule_config": {"difficulty": [4, 16], "max_step": [3]}}})",
         "curriculum_type voc is not seqlen"},
        {R"({"curriculum_learning": {"enabled": true, "schedule_type": "fixed_discrete",
             "schedule_config": {"difficulty": [4, 16], "max_step": [3], "steps": 3}}})",
         "\"curriculum_learning.schedule_config.steps\" is not supported"},
        {"[1]", "it is no JSON object"},
        {"{", "parse error"}}) {
    EXPECT_THAT(parse_file(json).problems, ElementsAre(HasSubstr(message))) << json;
  }
  EXPECT_THAT(parse("--data-path x --deepspeed_config /nowhere.json").problems,
              ElementsAre(HasSubstr("--deepspeed_config /nowhere.json: ")));
}

constexpr const char* kMetric =
    "{\"index_to_sample_path\": \"m/x_index_to_sample\", \"difficulty_type\": \"percentile\", "
    "\"clustering_type\": \"schedule_based\", \"min_difficulty\": 1, \"max_difficulty\": 100, "
    "\"schedule_type\": \"fixed_root\", \"schedule_config\": {\"total_curriculum_step\": 10, "
    "\"difficulty_step\": 1, \"root_degree\": 2}}";

// The file of DeepSpeed's documentation, and its metric that cuts sequences beside one that draws.
TEST_F(CurriculumConfig, DataEfficiencyIsReadFromDeepSpeedsFile) {
  const auto file = [](const std::string& metrics, const std::string& more = "") {
    return "{\"data_efficiency\": {\"enabled\": true, \"seed\": 99, \"data_sampling\": {\"enabled\": "
           "true, \"num_epochs\": 1, \"num_workers\": 0, \"curriculum_learning\": {\"enabled\": true, "
           "\"data_cluster_path\": \"clusters\", \"curriculum_metrics\": {" +
           metrics + "}}}" + more + "}}";
  };
  const std::string drawn = std::string("\"vocabularyrarity\": ") + kMetric;
  const ParsedArguments parsed = parse_file(file(drawn), "--data-efficiency-curriculum-learning");
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.config.curriculum_metrics_seed, 99);
  const auto metrics = parse_curriculum_metrics(parsed.config.curriculum_metrics);
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].name, "vocabularyrarity");
  EXPECT_TRUE(metrics[0].by_percentile);
  EXPECT_EQ(metrics[0].schedule.total_step, 10);
  EXPECT_THAT(parsed.notes, testing::Contains(HasSubstr("data_cluster_path")));

  const std::string truncated =
      "\"seqlen_truncate\": {\"difficulty_type\": \"value\", \"clustering_type\": \"single_cluster\", "
      "\"min_difficulty\": 8, \"max_difficulty\": 16, \"schedule_type\": \"fixed_linear\", "
      "\"schedule_config\": {\"total_curriculum_step\": 5, \"difficulty_step\": 8}}";
  const ParsedArguments both = parse_file(file(truncated + ", " + drawn));
  EXPECT_THAT(both.problems, IsEmpty());
  EXPECT_EQ(both.config.length_curriculum().length(1), 8);
  EXPECT_EQ(parse_curriculum_metrics(both.config.curriculum_metrics).size(), 1U);

  EXPECT_THAT(parse_file(file(drawn), "--curriculum-metrics-seed 5").problems,
              testing::Contains(HasSubstr("\"seed\" is 99 and --curriculum-metrics-seed is 5")));
  EXPECT_THAT(parse_file(file(drawn, ", \"data_routing\": {\"enabled\": true}")).problems,
              testing::Contains(HasSubstr("random layerwise token dropping is not built")));
  EXPECT_THAT(parse_file(file("\"seqlen_reshape\": {}")).problems,
              testing::Contains(HasSubstr("seqlen_reshape is not built")));
  EXPECT_THAT(parse_file("{\"data_efficiency\": {\"enabled\": false}}").problems, IsEmpty());
}

TEST_F(CurriculumConfig, MetricsFromAFileAndWhatDoesNotGoWithThem) {
  const std::string file = (folder_ / "metrics.json").string();
  write_file_atomically(file, std::string("{\"x\": ") + kMetric + "}");
  const std::string metrics = "--curriculum-metrics " + file + " ";
  EXPECT_THAT(problems(metrics), IsEmpty());
  EXPECT_THAT(problems(metrics + kLinear), IsEmpty());
  const auto refuses = [&](const std::string& flags, const std::string& what) {
    EXPECT_THAT(problems(flags), testing::Contains(HasSubstr(what)));
  };
  refuses(metrics + "--dataloader-type cyclic", "give --dataloader-type single");
  refuses(metrics + kLinear + "--curriculum-mode reshape", "give --curriculum-mode truncate");
  refuses("--curriculum-metrics nowhere.json", "nowhere.json");
  refuses("--curriculum-metrics {}", "they should be a JSON object");
  refuses("--data-efficiency-curriculum-learning", "needs --curriculum-metrics");
  refuses("--curriculum-metrics-seed 3", "needs --curriculum-metrics");
  refuses("--train-doc-idx-path x", "indexes follow from the data");
}

}  // namespace
}  // namespace weft
