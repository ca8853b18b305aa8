// Tests that all problems of a configuration are told at once, before anything is done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/command_line/command_lines.h"

namespace weft {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Config, SizesThatWouldOverflowAreProblems) {
  for (const char* flags :
       {"--num-layers 1000000000000", "--hidden-size 4000000000000000000",
        "--global-batch-size 4000000000000000000", "--vocab-size 9223372036854775807",
        "--seq-length 4000000000000000000 --max-position-embeddings 4000000000000000000",
        "--train-iters 9000000000000000000", "--lr-decay-iters 9000000000000000000",
        "--num-layers 65000 --hidden-size 16000000 --seq-length 2000000000 "
        "--max-position-embeddings 2000000000"}) {
    EXPECT_THAT(problems_of(kGood + flags), Not(IsEmpty())) << flags;
  }
}

TEST(Config, FewerSamplesThanABatchAreAProblem) {
  std::string line = kGood;
  const std::string iters = "--train-iters 10";
  line.replace(line.find(iters), iters.size(), "--train-samples 7");
  EXPECT_THAT(problems_of(line), Contains(HasSubstr("less than one batch of 8")));
}

// Megatron requires the flag where there are biases.
TEST(Config, SquaredReluGoesWithoutFusedGelu) {
  EXPECT_THAT(problems_of(kGood + "--squared-relu --no-bias-gelu-fusion"), IsEmpty());
}

TEST(Config, WhatMuonDoesNotTakeIsRefusedByName) {
  EXPECT_THAT(problems_of(kGood + "--optimizer muon --muon-nesterov --muon-tp-mode duplicated "
                                  "--muon-coefficient-type polar_express --muon-num-ns-steps 9"),
              IsEmpty());
  EXPECT_THAT(problems_of(kGood + "--optimizer dist_muon --muon-use-nesterov "
                                  "--muon-fp32-matmul-prec high --muon-scale-mode unit_rms_norm"),
              IsEmpty());
  for (const auto& [flags, problem] : {
           std::pair{"--optimizer sgd", "--optimizer sgd is not supported"},
           {"--optimizer muon --muon-scale-mode rms", "--muon-scale-mode rms is none of"},
           {"--optimizer muon --muon-coefficient-type cans", "cans is none of quintic, simple"},
           {"--optimizer muon --muon-num-ns-steps 6", "give a multiple of that"},
           {"--optimizer muon --muon-num-ns-steps 0", "--muon-num-ns-steps 0 does not go with"},
           {"--optimizer muon --muon-coefficient-type polar_express", "give so many or more"},
           {"--optimizer muon --muon-momentum 1", "--muon-momentum must be in [0, 1)"},
           {"--optimizer muon --muon-extra-scale-factor 0", "must be positive (got 0)"},
           {"--optimizer muon --muon-fp32-matmul-prec low", "--muon-fp32-matmul-prec low is not"},
           {"--optimizer muon --muon-tp-mode distributed", "--muon-tp-mode distributed is not"},
           {"--optimizer muon --muon-scalar-optimizer lion", "--muon-scalar-optimizer lion is not"},
           {"--optimizer muon --bf16 --bf16-optimizer-state", "keeps its momentum in fp32"},
       })
    EXPECT_THAT(problems_of(kGood + flags), Contains(HasSubstr(problem))) << flags;
}

TEST(Config, WeightDecayThatGrowsNeedsBothEnds) {
  for (const auto& [flags, problem] :
       {std::pair{"--start-weight-decay 0.1 --end-weight-decay 0.2",
                  "need --weight-decay-incr-style linear or"},
        {"--weight-decay-incr-style linear --start-weight-decay 0.1",
         "needs --start-weight-decay and --end-weight-decay"},
        {"--weight-decay-incr-style cosine --start-weight-decay 0.2 --end-weight-decay 0.1",
         "and --end-weight-decay 0.1 no smaller"}})
    EXPECT_THAT(problems_of(kGood + flags), Contains(HasSubstr(problem))) << flags;
}

TEST(Config, WhatFp8ProductsDoNotTakeIsRefusedByName) {
  const auto expect_problem = [](const std::string& flags, const std::string& problem) {
    EXPECT_THAT(problems_of(kGood + flags), Contains(HasSubstr(problem))) << flags;
  };
  const std::string fp8 = "--bf16 --fp8-format hybrid ";
  EXPECT_THAT(problems_of(kGood + fp8), IsEmpty());
  expect_problem("--fp8-format hybrid", "needs --bf16");
  EXPECT_THAT(problems_of(kGood + "--bf16 --fp8"), IsEmpty());
  expect_problem("--fp16 --fp8-hybrid", "needs --bf16");
  expect_problem("--bf16 --fp8-format e5m2", "--fp8-format e5m2 is none of hybrid, e4m3");
  expect_problem(fp8 + "--fp8-e4m3", "exclude each other");
  expect_problem(fp8 + "--fp8", "exclude each other");
  expect_problem(fp8 + "--fp8-recipe mxfp8", "--fp8-recipe mxfp8 is none of delayed, tensorwise");
  expect_problem(fp8 + "--fp8-amax-compute-algo mean", "is none of most_recent, max");
  expect_problem(fp8 + "--fp8-amax-history-len 0", "--fp8-amax-history-len must be from 1");
  expect_problem(fp8 + "--fp8-margin -1", "--fp8-margin must be from 0 to 32");
  expect_problem(fp8 + "--ffn-hidden-size 72", "--ffn-hidden-size are 72");
  expect_problem("--no-fp8-wgrad", "--no-fp8-wgrad needs --fp8-format");
  expect_problem("--fp8-shadow-interval 5", "--fp8-shadow-interval needs --fp8-format");
  expect_problem(fp8 + "--fp8-shadow-interval 0", "--fp8-shadow-interval must be");
}

TEST(Config, FlagsOfRecomputationThatMeanNothingTogetherAreRefused) {
  const auto expect_problem = [](const std::string& flags, const std::string& problem) {
    EXPECT_THAT(problems_of(kGood + flags), testing::ElementsAre(HasSubstr(problem))) << flags;
  };
  expect_problem("--recompute-granularity half", "half is none of");
  expect_problem("--recompute-modules layernorm", "needs --recompute-granularity selective");
  expect_problem("--recompute-activations --recompute-modules gelu", "is called activation here");
  expect_problem("--recompute-activations --recompute-modules half", "half is none of");
  expect_problem("--recompute-activations --recompute-modules moe_act", "has no such part");
  expect_problem("--recompute-activations --recompute-method uniform",
                 "needs --recompute-granularity full");
  expect_problem("--recompute-activations --checkpoint-activations", "cannot both be recomputed");
  expect_problem("--recompute-granularity full", "needs --recompute-method uniform or block");
  expect_problem("--recompute-granularity full --recompute-method all", "all is none of");
  expect_problem("--recompute-method block", "needs --recompute-granularity full");
  expect_problem("--recompute-num-layers 2", "needs --recompute-granularity full");
  expect_problem("--checkpoint-activations --recompute-method block", "leave one of them out");
  expect_problem("--checkpoint-activations --recompute-num-layers 0", "must be positive");
  expect_problem("--checkpoint-activations --recompute-num-layers 99",
                 "99 is more than --num-layers");
  expect_problem("--checkpoint-activations --distribute-checkpointed-activations",
                 "give --sequence-parallel");
}

TEST(Config, TheCyclicOrderHasNoBlendSchedule) {
  EXPECT_THAT(problems_of(kGood + "--dataloader-type cyclic --blend-schedule there.json"),
              Contains(HasSubstr("so --blend-schedule would mean nothing")));
}

TEST(Config, AllProblemsAreReportedAtOnce) {
  EXPECT_THAT(
      problems_of(
          "--hidden-size 30 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 8 "
          "--micro-batch-size 3 --global-batch-size 8 --train-iters 10 --train-samples 80 --lr "
          "1e-4 --min-lr 1e-3 "
          "--data-path x --split 98,0,2 --save ckpt"),
      testing::UnorderedElementsAre(
          "--num-layers is required and must be positive (got 0)",
          HasSubstr("--hidden-size 30 is not a multiple of --num-attention-heads 4"),
          "--max-position-embeddings 8 is smaller than --seq-length 16",
          HasSubstr("--global-batch-size 8 is not a multiple of --micro-batch-size 3"),
          "--train-iters 10 and --train-samples 80 exclude each other",
          "--min-lr 0.001 must lie between 0 and --lr 0.0001",
          "validation requested (--eval-iters 100) but --split 98,0,2 gives it 0 %; give "
          "--eval-iters 0 or a share",
          "--save ckpt needs --save-interval"));
}

struct Case {
  const char* arguments;
  const char* problem;
};

class OneProblem : public testing::TestWithParam<Case> {};

TEST_P(OneProblem, IsNamed) {
  EXPECT_THAT(problems_of(kGood + GetParam().arguments),
              ElementsAre(HasSubstr(GetParam().problem)));
}

INSTANTIATE_TEST_SUITE_P(
    Config, OneProblem,
    testing::Values(
        Case{"--pad-vocab-size-to 50300",
             "--pad-vocab-size-to 50300 is not a multiple of --make-vocab-size-divisible-by 128"},
        Case{"--pad-vocab-size-to 128 --vocab-size 200",
             "--pad-vocab-size-to 128 is smaller than --vocab-size 200"},
        Case{"--make-vocab-size-divisible-by 0", "--make-vocab-size-divisible-by must be positive"},
        Case{"--recompute-granularity selective --recompute-modules layernorm,mlp",
             "--recompute-modules layernorm,mlp: separate the parts by blanks"},
        Case{"--layernorm-epsilon 0", "--layernorm-epsilon must be positive"},
        Case{"--swiglu --glu-activation geglu",
             "--swiglu and --glu-activation geglu exclude each other"},
        Case{"--glu-activation gelu", "--glu-activation gelu is none of swiglu, geglu"},
        Case{"--use-rotary-position-embeddings --rotary-percent 0.01",
             "rotary positions turn pairs, and 0 elements of a head"},
        Case{"--rotary-percent 2", "--rotary-percent must be in (0, 1] (got 2)"},
        Case{"--rotary-base 0", "--rotary-base must be above 1 (got 0)"},
        Case{"--use-rope-scaling", "--use-rope-scaling needs --position-embedding-type rope"},
        Case{"--rope-scaling-factor 4", "--rope-scaling-factor 4 needs --use-rope-scaling"},
        Case{"--use-rope-scaling --position-embedding-type rope --rope-scaling-factor 0.5",
             "--rope-scaling-factor must be 1 or more (got 0.5)"},
        Case{"--relu --squared-relu", "--relu and --squared-relu exclude each other"},
        Case{"--squared-relu --swiglu", "--squared-relu and --swiglu exclude each other"},
        Case{"--num-query-groups 2", "--num-query-groups 2 needs --group-query-attention"},
        Case{"--group-query-attention --num-query-groups 3",
             "is not a multiple of --num-query-groups 3"},
        Case{"--norm-epsilon 0", "--layernorm-epsilon must be positive"},
        Case{"--normalization BatchNorm",
             "--normalization BatchNorm is none of LayerNorm, RMSNorm"},
        Case{"--init-method-std 0", "--init-method-std must be positive"},
        Case{"--attention-dropout 1", "--attention-dropout must be in [0, 1) (got 1)"},
        Case{"--hidden-dropout -0.1", "--hidden-dropout must be in [0, 1)"},
        Case{"--rampup-batch-size 2 2", "takes START INCREMENT SAMPLES (got 2 values)"},
        Case{"--step-batch-size-schedule 0:4,64:x", "'0:4,64:x': 64:x is not TOKENS:SIZE"},
        Case{"--exit-interval 0", "--exit-interval must be positive (got 0)"},
        Case{"--exit-duration-in-mins 0", "--exit-duration-in-mins must be positive"},
        Case{"--eval-iters -1", "--eval-iters must be at least 0"},
        Case{"--eval-interval 0", "--eval-interval must be positive"},
        Case{"--lr 0", "--lr is required and must be positive"},
        Case{"--lr-decay-samples 5", "--lr-decay-samples belongs to --train-samples"},
        Case{"--lr-warmup-samples 5", "--lr-warmup-samples belongs to --train-samples"},
        Case{"--lr-warmup-fraction 0.1 --lr-warmup-iters 1",
             "--lr-warmup-fraction 0.1 and --lr-warmup-iters 1 exclude"},
        Case{"--lr-warmup-fraction -0.5", "--lr-warmup-fraction must be in [0, 1)"},
        Case{"--lr-warmup-iters 10",
             "warm-up of 80 samples must be shorter than its decay of 80 samples"},
        Case{"--lr-decay-style exponential",
             "--lr-decay-style exponential: is none of constant, linear, cosine"},
        Case{"--override-lr-scheduler --use-checkpoint-lr-scheduler", "exclude each other"},
        Case{"--adam-beta2 1", "--adam-beta2 must be in [0, 1)"},
        Case{"--adam-eps 1e-300", "--adam-eps must be positive and no smaller than"},
        Case{"--adam-eps 1e-999", "--adam-eps 1e-999: is too large or too small"},
        Case{"--num-workers 100000", "--num-workers 100000 is beyond the limit of 1024"},
        Case{"--clip-grad -1", "--clip-grad must be at least 0"},
        Case{"--data-path 0.5 a 0.5", "a weight or a PREFIX is missing"},
        Case{"--split 0,50,50", "--split 0,50,50 gives training 0 %"},
        Case{"--split a,b", "--split a,b: "},
        Case{"--save-interval 5", "--save-interval 5 needs --save"},
        Case{"--ckpt-step 5", "--ckpt-step 5 needs --load"},
        Case{"--finetune", "--finetune needs --load"},
        Case{"--async-save", "--async-save needs --save"},
        Case{"--seq-length 1", "--seq-length 1 has one position"},
        Case{"--log-interval 0", "--log-interval must be positive"},
        Case{"--timing-log-level 3", "--timing-log-level must be 0, 1 or 2"},
        Case{"--check-weights-interval 0", "--check-weights-interval must be positive (got 0)"},
        Case{"--device tpu", "is none of auto, cuda, cpu"},
        Case{"--num-workers 0", "--num-workers must be at least 1"},
        Case{"--seed", "--seed: needs a value"}));

TEST(Config, RampUpIsCheckedOverItsWholeLength) {
  const std::string samples =
      "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
      "--max-position-embeddings 16 "
      "--train-samples 1000 --lr 1e-3 --data-path x ";
  EXPECT_THAT(
      problems_of(samples +
                  "--micro-batch-size 4 --global-batch-size 32 --rampup-batch-size 8 6 100"),
      ElementsAre(
          HasSubstr("reaches a batch of 14 in step 5, not a multiple of --micro-batch-size 4")));
  EXPECT_THAT(
      problems_of(samples +
                  "--micro-batch-size 4 --global-batch-size 32 --rampup-batch-size 8 7 100"),
      ElementsAre(HasSubstr("a whole number of increments of 7")));
  EXPECT_THAT(
      problems_of(samples +
                  "--micro-batch-size 4 --global-batch-size 32 --rampup-batch-size 32 8 100"),
      ElementsAre(HasSubstr("a whole number of increments of 8")));
}

TEST(Config, StepsOfTheBatchSizeAreChecked) {
  const std::string samples =
      "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
      "--max-position-embeddings 16 --train-samples 1000 --lr 1e-3 --data-path x "
      "--micro-batch-size 4 --step-batch-size-schedule ";
  EXPECT_THAT(problems_of(samples + "0:8,1K:16"), ElementsAre());
  EXPECT_EQ(parse_arguments(words(samples + "0:8,1K:16")).config.global_batch(), 16);
  EXPECT_THAT(problems_of(samples + "0:6,1K:16"),
              ElementsAre(HasSubstr("a batch of 6, not a multiple of --micro-batch-size 4")));
  EXPECT_THAT(problems_of(samples + "0:8,1K:16 --global-batch-size 8"),
              ElementsAre(HasSubstr("8 is not the last size of --step-batch-size-schedule, 16")));
  EXPECT_THAT(problems_of(samples + "0:8,1K:16 --rampup-batch-size 4 4 100"),
              testing::Contains(HasSubstr("exclude each other")));
}

TEST(Config, BatchesAreSharedByTheDataParallelRanks) {
  auto parsed = parse_arguments(words(kGood));
  parsed.config.world_size = 3;
  EXPECT_THAT(problems_of(parsed.config), ElementsAre(HasSubstr("times data-parallel size 3")));
  parsed.config.global_batch_size.reset();
  EXPECT_EQ(parsed.config.global_batch(), 3 * parsed.config.micro_batch_size);

  const std::string ramp =
      "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
      "--max-position-embeddings 16 --train-samples 1000 --lr 1e-3 --data-path x "
      "--micro-batch-size 2 --global-batch-size 32 --rampup-batch-size 8 4 120";
  parsed = parse_arguments(words(ramp));
  EXPECT_THAT(problems_of(parsed.config), ElementsAre());
  parsed.config.world_size = 2;
  EXPECT_THAT(problems_of(parsed.config), ElementsAre());
  // 120 samples over 6 increments: the batch is 12 from sample 20 on, after steps of 8, 8 and 8.
  parsed.config.world_size = 4;
  EXPECT_THAT(problems_of(parsed.config),
              ElementsAre(HasSubstr("reaches a batch of 12 in step 4, not a multiple of "
                                    "--micro-batch-size 2 times data-parallel size 4")));
}

TEST(Config, WhatTensorParallelRanksShareMustDivide) {
  const auto problems = [](const std::string& flags, int64_t world_size) {
    auto parsed = parse_arguments(words(kGood + flags));
    parsed.config.world_size = world_size;
    return problems_of(parsed.config);
  };
  EXPECT_THAT(problems("--tensor-model-parallel-size 4 --sequence-parallel", 4), IsEmpty());
  EXPECT_THAT(problems("--tensor-model-parallel-size 2", 8), IsEmpty());
  EXPECT_THAT(
      problems("--tensor-model-parallel-size 2", 3),
      ElementsAre(
          "the number of ranks, 3, is not a multiple of --tensor-model-parallel-size 2 times "
          "--pipeline-model-parallel-size 1; start a multiple of 2 "
          "(mpirun -n 2 ...)"));
  EXPECT_THAT(problems("--tensor-model-parallel-size 8 --kv-channels 8", 8),
              ElementsAre(HasSubstr("--num-attention-heads 4 is not a multiple of "
                                    "--tensor-model-parallel-size 8")));
  EXPECT_THAT(problems("--tensor-model-parallel-size 4 --ffn-hidden-size 130", 4),
              ElementsAre(HasSubstr("--ffn-hidden-size 130 is not a multiple of")));
  EXPECT_THAT(problems("--tensor-model-parallel-size 3 --num-attention-heads 6 --kv-channels 8", 3),
              ElementsAre(HasSubstr("the feed-forward size 4 * --hidden-size 128 is not")));
  EXPECT_THAT(problems("--tensor-model-parallel-size 4 --make-vocab-size-divisible-by 1 "
                       "--pad-vocab-size-to 50258",
                       4),
              ElementsAre(HasSubstr("--pad-vocab-size-to 50258 is not a multiple of "
                                    "--tensor-model-parallel-size 4")));
  EXPECT_THAT(problems("--tensor-model-parallel-size 4 --sequence-parallel --seq-length 7", 4),
              ElementsAre(HasSubstr("--sequence-parallel: --micro-batch-size 2 times --seq-length "
                                    "7 is not a multiple")));
  EXPECT_THAT(problems("--tensor-model-parallel-size 0", 4),
              ElementsAre(HasSubstr("--tensor-model-parallel-size is required and must be")));
  EXPECT_THAT(problems("--tensor-model-parallel-size 4000000000000000000", 4),
              ElementsAre(HasSubstr("is beyond the limit")));
}

TEST(Config, SequenceParallelismAloneIsOffAsInMegatron) {
  const auto parsed = parse_arguments(words(kGood + "--sequence-parallel"));
  EXPECT_THAT(problems_of(parsed.config), IsEmpty());
  EXPECT_FALSE(parsed.config.shares_sequence());
  EXPECT_THAT(warnings_of(parsed.config),
              Contains("--sequence-parallel is off: --tensor-model-parallel-size is 1"));
}

TEST(Config, AStaleFeedForwardSizeIsWarnedOf) {
  const auto parsed = parse_arguments(words(kGood + "--ffn-hidden-size 20480"));
  EXPECT_THAT(warnings_of(parsed.config),
              Contains("--ffn-hidden-size 20480 is not 4 * --hidden-size (128)"));
}

TEST(Config, SwigluTakesMegatronsFeedForwardSize) {
  Config config;
  config.swiglu = true;
  for (const auto& [hidden_size, ffn_size] :
       {std::pair{768, 2048}, {4096, 10880}, {5120, 13632}, {1000, 2624}}) {
    config.hidden_size = hidden_size;
    EXPECT_EQ(config.ffn_size(), ffn_size);
  }
  EXPECT_THAT(problems_of(kGood + "--swiglu --hidden-size 16 --num-attention-heads 2"),
              ElementsAre(HasSubstr("--swiglu makes the feed-forward size of --hidden-size 16 0")));
}

}  // namespace
}  // namespace weft
