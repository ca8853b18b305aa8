#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "trainer/config/command_line.h"
#include "trainer/config/device_profile.h"
#include "trainer/config/option_text.h"
#include "trainer/config/problems.h"
#include "trainer/model/recompute.h"

namespace weft {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

const std::string kGood =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 "
    "--micro-batch-size 2 --global-batch-size 8 --train-iters 10 --lr 1e-3 --data-path "
    "my_text_document ";

std::vector<std::string> problems_of(const std::string& line) {
  const ParsedArguments parsed = parse_arguments(words(line));
  std::vector<std::string> all = parsed.problems;
  for (const std::string& problem : problems_of(parsed.config)) all.push_back(problem);
  return all;
}

TEST(Config, AGoodCommandLineHasNoProblems) { EXPECT_THAT(problems_of(kGood), IsEmpty()); }

TEST(Config, IntegersMayBeGroupedWithUnderscores) {
  const auto parsed =
      parse_arguments(words("--train-samples 300_000_000 --lr-warmup-samples 183_105"));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.config.train_samples, 300'000'000);
  EXPECT_EQ(parsed.config.lr_warmup_samples, 183'105);
}

TEST(Config, ValuesThatAreNotNumbersAreReportedTogether) {
  EXPECT_THAT(parse_arguments(
                  words("--num-layers many --lr fast --seq-length 1_ --seed 99999999999999999999"))
                  .problems,
              ElementsAre("--num-layers many: is not an integer",
                          "--seq-length 1_: is not an integer", "--lr fast: is not a number",
                          "--seed 99999999999999999999: does not fit into 64 bits"));
}

TEST(Config, UnknownFlagsNameTheNearestKnownOne) {
  EXPECT_THAT(problems_of(kGood + "--micro_batch_size 4 --trian-iters 3 --zzzzzzzzzzzzzzzz"),
              ElementsAre("unknown flag --micro_batch_size: did you mean --micro-batch-size?",
                          "unknown flag --trian-iters: did you mean --train-iters?",
                          "unknown flag --zzzzzzzzzzzzzzzz; --help lists all"));
}

TEST(Config, NamesOfOtherTrainersLeadToMegatrons) {
  EXPECT_THAT(problems_of(kGood + "--learning-rate 1e-4 --max-steps 7"),
              ElementsAre("unknown flag --learning-rate: Megatron's name for it is --lr",
                          "unknown flag --max-steps: Megatron's name for it is --train-iters"));
}

TEST(Config, ShortHelpIsHelp) { EXPECT_TRUE(parse_arguments({"-h"}).help.has_value()); }

TEST(DeviceProfile, IsKnownByNameOrReadFromAFile) {
  const DeviceProfile h200 = find_device_profile("h200");
  EXPECT_EQ(h200.name, "NVIDIA H200");
  EXPECT_NEAR(static_cast<double>(h200.free_bytes()) / (1 << 30), 139.3, 0.1);
  const std::string path = testing::TempDir() + "profile.txt";
  const auto error_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    try {
      find_device_profile(path);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of("# mine\nname X\nmemory_mib 1000\n"), "");
  EXPECT_EQ(find_device_profile(path).memory_bytes, 1000 << 20);
  EXPECT_THAT(error_of("name X\n"), HasSubstr("memory_mib is missing"));
  EXPECT_THAT(error_of("name X\nmemory_mib 1e3\n"), HasSubstr("memory_mib is no number of MiB"));
  EXPECT_THAT(error_of("name X\nmemory 3\n"), HasSubstr("unknown line \"memory 3\""));
  EXPECT_THROW(find_device_profile("h2000"), std::invalid_argument);
}

// The CUDA backend asked for this workspace on an H200 (tests/bench/results, weft-train --dry-run).
TEST(DeviceProfile, PlansTheWorkspaceOfAGpuClosely) {
  ModelShape shape;
  shape.micro_batch_size = 64;
  shape.seq_length = 1024;
  shape.num_heads = 12;
  shape.hidden_size = 768;
  const auto mib =
      static_cast<double>(find_device_profile("h200").workspace_bytes(shape)) / (1 << 20);
  EXPECT_GT(mib, 64 + 6);
  EXPECT_LT(mib, 100);
}

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

TEST(Config, FlagsAreNotAbbreviated) {
  EXPECT_THAT(problems_of(kGood + "--num-layer 4"),
              Contains(HasSubstr("did you mean --num-layers?")));
}

TEST(Config, TheLastOfEqualFlagsCounts) {
  EXPECT_EQ(parse_arguments(words(kGood + "--num-layers 7")).config.num_layers, 7);
}

TEST(Config, OnePairOfStrayQuotesIsTakenOff) {
  EXPECT_EQ(parse_arguments({"--split", "'98,2,0'"}).config.split, "98,2,0");
}

TEST(Config, HarmlessMegatronFlagsAreAcceptedAndSaySo) {
  const auto parsed = parse_arguments(words(
      kGood +
      "--use-mcore-models --use-flash-attn --transformer-impl local --no-masked-softmax-fusion "
      "--tokenizer-type GPT2BPETokenizer --data-impl mmap --distributed-backend nccl --local_rank "
      "0 "
      "--accumulate-allreduce-grads-in-fp32 --mmap-warmup --attention-softmax-in-fp32"));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.notes.size(), 10U);
  EXPECT_THAT(parsed.notes, Contains("--use-flash-attn has no effect: attention is always fused"));
}

TEST(Config, MegatronFlagsThatAreNotBuiltAreRefused) {
  EXPECT_THAT(
      problems_of(kGood +
                  "--fp8-format hybrid --checkpoint-in-cpu --pipeline-model-parallel-size 2 "
                  "--position-embedding-type t5 --dataloader-type external"),
      testing::UnorderedElementsAre(
          "--fp8-format is not supported yet: use --bf16 or --fp16, or neither for fp32",
          HasSubstr("--checkpoint-in-cpu is not supported yet"),
          "the number of ranks, 1, is not a multiple of --tensor-model-parallel-size 1 times "
          "--pipeline-model-parallel-size 2; start a multiple of 2 (mpirun -n 2 ...)",
          "--position-embedding-type t5 is none of learned_absolute, absolute, rope, rotary, alibi, none",
          "--dataloader-type external is none of single, cyclic"));
}

TEST(Config, Fp16AndItsLossScaleAreChecked) {
  const ParsedArguments parsed = parse_arguments(
      words(kGood + "--fp16 --initial-loss-scale 65536 --min-loss-scale 2 --loss-scale-window 500 "
                    "--hysteresis 3 --fp16-lm-cross-entropy --apply-query-key-layer-scaling"));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.config.dtype(), DType::kFloat16);
  EXPECT_EQ(parsed.config.initial_loss_scale, 65536);
  EXPECT_EQ(parsed.config.hysteresis, 3);
  EXPECT_EQ(parsed.notes.size(), 2U);
  for (const auto& [flags, problem] : {
           std::pair{"--fp16 --bf16", "--fp16 and --bf16 exclude each other"},
           {"--fp16 --device cuda", "--fp16 trains on CPUs only: the kernels for GPUs"},
           {"--fp16 --dry-run --device-profile h200", "have no float16; give --bf16"},
           {"--fp16 --loss-scale 0", "--loss-scale must be positive and at most 2^127 (got 0)"},
           {"--fp16 --initial-loss-scale inf", "--initial-loss-scale must be positive"},
           {"--fp16 --min-loss-scale 8 --initial-loss-scale 4",
            "--min-loss-scale 8 must be positive and at most --initial-loss-scale 4"},
           {"--fp16 --loss-scale-window 0", "--loss-scale-window must be at least 1 (got 0)"},
           {"--fp16 --hysteresis 0", "--hysteresis must be at least 1 (got 0)"},
           {"--skip-bad-steps -1", "--skip-bad-steps must be at least 0 (got -1)"},
           {"--bf16 --fp32-residual-connection", "the residual stream has the type of the weights"},
           {"--no-check-for-nan-in-loss-and-grad", "give --skip-bad-steps N"},
       }) {
    EXPECT_THAT(problems_of(kGood + flags), Contains(HasSubstr(problem))) << flags;
  }
  const auto warnings = [](const std::string& flags) {
    return warnings_of(parse_arguments(words(kGood + flags)).config);
  };
  EXPECT_THAT(warnings("--fp16 --loss-scale 12"), Contains(HasSubstr("is the factor itself")));
  EXPECT_THAT(warnings("--bf16 --loss-scale 4096"),
              Contains("--loss-scale 4096 has no effect without --fp16"));
}

TEST(Config, MegatronCoresPipelineFlagsNameOurs) {
  for (const char* flag :
       {"--decoder-first-pipeline-num-layers 1", "--decoder-last-pipeline-num-layers 1",
        "--pipeline-model-parallel-layout Et*2|L", "--account-for-embedding-in-pipeline-split",
        "--account-for-loss-in-pipeline-split"}) {
    EXPECT_THAT(problems_of(kGood + flag),
                testing::ElementsAre(HasSubstr("to --pp-partition-method")))
        << flag;
  }
}

// 12 layers on 8 ranks, in pipelines of 4 or 2.
std::vector<std::string> problems_of_interleaved(const std::string& flags) {
  Config config =
      parse_arguments(words(kGood + "--num-layers 12 --micro-batch-size 1 " + flags)).config;
  config.world_size = 8;
  return problems_of(config);
}

TEST(Config, VirtualStagesAreThoseOfMegatronsFlags) {
  const std::string four = "--pipeline-model-parallel-size 4 --global-batch-size 16 ";
  const auto stages_of = [](const std::string& flags) {
    return parse_arguments(words(kGood + "--num-layers 12 " + flags)).config.num_virtual_stages();
  };
  EXPECT_EQ(stages_of(four), 1);
  EXPECT_EQ(stages_of(four + "--num-layers-per-virtual-pipeline-stage 1"), 3);
  EXPECT_EQ(stages_of(four + "--num-layers-per-virtual-pipeline-stage 3"), 1);
  EXPECT_EQ(stages_of(four + "--num-virtual-stages-per-pipeline-rank 3"), 3);
  for (const char* flags :
       {"--num-layers-per-virtual-pipeline-stage 1", "--num-virtual-stages-per-pipeline-rank 3",
        "--num-virtual-stages-per-pipeline-rank 2 --pp-partition-method type:transformer|embedding",
        "--num-virtual-stages-per-pipeline-rank 2 --pp-partition-method 0,2,2,2,2,2,2,0",
        "--num-layers-per-virtual-pipeline-stage 1 "
        "--microbatch-group-size-per-virtual-pipeline-stage 8"}) {
    EXPECT_THAT(problems_of_interleaved(four + flags), IsEmpty()) << flags;
  }
}

TEST(Config, VirtualStagesThatCannotBeSayWhatWouldWork) {
  const std::string two = "--pipeline-model-parallel-size 2 ",
                    four = "--pipeline-model-parallel-size 4 --global-batch-size 16 ",
                    layers = "--num-layers-per-virtual-pipeline-stage ",
                    stages = "--num-virtual-stages-per-pipeline-rank ",
                    group = "--microbatch-group-size-per-virtual-pipeline-stage ";
  for (const auto& [flags, expected] :
       {std::pair<std::string, std::string>{four + layers + "1 " + stages + "3",
                                            "cannot be set at the same time"},
        {four + layers + "2",
         "number of layers per pipeline stage must be divisible by number of layers per virtual "
         "pipeline stage: --num-layers 12 over --pipeline-model-parallel-size 4 are 3, not"},
        {"--global-batch-size 16 " + stages + "2",
         "2 virtual stages need --pipeline-model-parallel-size 2 or more"},
        {four + stages + "2",
         "--num-layers 12 is not a multiple of --pipeline-model-parallel-size 4 times 2 virtual "
         "stages: change one of them, or give --pp-partition-method type:transformer"},
        {four + layers + "1 --pp-partition-method type:transformer",
         "give --num-virtual-stages-per-pipeline-rank"},
        {four + group + "4", "needs interleaved stages"},
        {four + stages + "3 " + group + "3", "should not be less than"},
        {four + stages + "3 " + group + "9",
         "should range in [PP=4, M=8], and a batch of 16 samples has 8 micro-batches"},
        {"--pipeline-model-parallel-size 4 --global-batch-size 20 " + stages + "3",
         "the last of the 10 of a batch of 20 samples would be a group of 2, fewer than "
         "--pipeline-model-parallel-size 4, which introduces dependency bubbles; give "
         "--microbatch-group-size-per-virtual-pipeline-stage 5, or another batch size"},
        {two + stages + "2 --global-batch-size 24 --rampup-batch-size 16 4 100",
         "the last of the 5 of a batch of 20 samples would be a group of 1"}}) {
    EXPECT_THAT(problems_of_interleaved(flags), Contains(HasSubstr(expected))) << flags;
  }
}

TEST(Config, RecomputationIsAskedForByMegatronsFlags) {
  const std::string full = "--recompute-granularity full ";
  using Method = RecomputeOptions::Method;
  const auto options_of = [](const std::string& flags) {
    const auto parsed = parse_arguments(words(kGood + flags));
    EXPECT_THAT(parsed.problems, IsEmpty()) << flags;
    EXPECT_THAT(problems_of(kGood + flags), IsEmpty()) << flags;
    return recompute_options(parsed.config);
  };
  EXPECT_EQ(options_of("").method, Method::kNone);
  const std::vector<std::string> uniform = {
      full + "--recompute-method uniform", "--checkpoint-activations",
      "--checkpoint-activations --checkpoint-num-layers 1 --deepspeed-activation-checkpointing"};
  for (const std::string& flags : uniform) {
    EXPECT_EQ(options_of(flags).method, Method::kUniform) << flags;
    EXPECT_EQ(options_of(flags).num_layers, 1) << flags;
  }
  const RecomputeOptions block =
      options_of(full + "--recompute-method block --recompute-num-layers 2");
  EXPECT_EQ(block.method, Method::kBlock);
  EXPECT_EQ(block.num_layers, 2);

  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  EXPECT_TRUE(options_of(selective + "layernorm").norms);
  EXPECT_FALSE(options_of(selective + "layernorm").mlp);
  const RecomputeOptions parts =
      options_of("--recompute-activations --recompute-modules core_attn mlp layernorm");
  EXPECT_TRUE(parts.norms && parts.mlp);
  EXPECT_EQ(parts.method, Method::kNone);
  // Megatron's default is the scores of attention, which are never kept.
  const RecomputeOptions scores = options_of("--recompute-activations");
  EXPECT_FALSE(scores.norms || scores.mlp);
  EXPECT_THAT(warnings_of(parse_arguments(words(kGood + "--recompute-activations")).config),
              Contains(HasSubstr("recomputes nothing here")));
}

TEST(Config, FlagsOfRecomputationThatMeanNothingTogetherAreRefused) {
  const auto expect_problem = [](const std::string& flags, const std::string& problem) {
    EXPECT_THAT(problems_of(kGood + flags), testing::ElementsAre(HasSubstr(problem))) << flags;
  };
  expect_problem("--recompute-granularity half", "half is none of");
  expect_problem("--recompute-modules layernorm", "needs --recompute-granularity selective");
  expect_problem("--recompute-activations --recompute-modules gelu", "give mlp");
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

// What the pipeline's stages share follows from the shape, which must be there first.
TEST(Config, AMissingPartOfTheShapeIsNamed) {
  const std::vector<std::string> kShape = {"--num-layers 2", "--hidden-size 32",
                                           "--num-attention-heads 4", "--seq-length 16"};
  for (size_t missing = 0; missing < kShape.size(); ++missing) {
    for (const char* rest : {"", " 0"}) {
      std::string arguments =
          "--max-position-embeddings 16 --micro-batch-size 2 --train-iters 10 "
          "--lr 1e-4 --data-path x ";
      const std::string flag = kShape[missing].substr(0, kShape[missing].find(' '));
      for (size_t i = 0; i < kShape.size(); ++i) {
        if (i != missing) arguments += kShape[i] + " ";
      }
      if (*rest != 0) arguments += flag + rest;
      EXPECT_THAT(problems_of(arguments),
                  Contains(HasSubstr(flag + " is required and must be positive")));
    }
  }
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
        Case{"--num-query-groups 2", "--num-query-groups 2 needs --group-query-attention"},
        Case{"--group-query-attention --num-query-groups 3",
             "is not a multiple of --num-query-groups 3"},
        Case{"--norm-epsilon 0", "--layernorm-epsilon must be positive"},
        Case{"--normalization BatchNorm",
             "--normalization BatchNorm is none of LayerNorm, RMSNorm"},
        Case{"--init-method-std 0", "--init-method-std must be positive"},
        Case{"--attention-dropout 1", "--attention-dropout must be in [0, 1) (got 1)"},
        Case{"--hidden-dropout -0.1", "--hidden-dropout must be in [0, 1)"},
        Case{"--rampup-batch-size 2 2 100", "--rampup-batch-size needs --train-samples"},
        Case{"--rampup-batch-size 2 2", "takes START INCREMENT SAMPLES (got 2 values)"},
        Case{"--step-batch-size-schedule 0:8", "--step-batch-size-schedule needs --train-samples"},
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
        Case{"--data-path 0.5 a 0.5 b", "a weight or a PREFIX is missing"},
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

TEST(Config, PositionsThatAreNotLearnedNeedNoTable) {
  std::string without_table = kGood;
  const std::string table = "--max-position-embeddings 16 ";
  without_table.erase(without_table.find(table), table.size());
  EXPECT_THAT(problems_of(without_table),
              ElementsAre(HasSubstr("--max-position-embeddings is required")));
  for (const std::string type : {"rope", "rotary", "alibi", "none"})
    EXPECT_THAT(problems_of(without_table + "--position-embedding-type " + type), IsEmpty());
  EXPECT_THAT(problems_of(without_table +
                          "--position-embedding-type alibi --use-rotary-position-embeddings"),
              ElementsAre(HasSubstr("exclude each other")));
}

TEST(Config, VocabularyIsPaddedAsMegatronDoes) {
  Config config;
  EXPECT_EQ(config.padded_vocab_size(50257), 50304);  // 128
  config.tensor_model_parallel_size = 8;
  EXPECT_EQ(config.padded_vocab_size(50257),
            51200);  // seed log of Megatron-LM on 8 tensor-parallel ranks
  config.tensor_model_parallel_size = 4;
  EXPECT_EQ(config.padded_vocab_size(50257), 50688);
  config.pad_vocab_size_to = 250880;
  EXPECT_EQ(config.padded_vocab_size(250680), 250880);
}

TEST(Config, ResolvedArgumentsAreSortedAndSpelledAsPython) {
  Config config =
      parse_arguments(words(kGood + "--bf16 --adam-beta2 0.95 --weight-decay 1")).config;
  config.fill_defaults();
  const auto resolved = resolved_options(config);
  EXPECT_TRUE(std::is_sorted(resolved.begin(), resolved.end()));
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(resolved,
              testing::IsSupersetOf(
                  {Pair{"adam_beta2", "0.95"}, Pair{"bf16", "True"}, Pair{"lr", "0.001"},
                   Pair{"weight_decay", "1.0"}, Pair{"layernorm_epsilon", "1e-05"},
                   Pair{"train_samples", "None"}, Pair{"ffn_hidden_size", "128"},
                   Pair{"data_path", "['my_text_document']"}, Pair{"lr_decay_iters", "10"}}));
}

TEST(Config, ResolvedJsonKeepsTypes) {
  Config config = parse_arguments(words(kGood + "--adam-beta2 0.95")).config;
  const std::string json = resolved_json(config);
  EXPECT_THAT(json, HasSubstr("\"adam_beta2\":0.95"));
  EXPECT_THAT(json, HasSubstr("\"train_samples\":null"));
  EXPECT_THAT(json, HasSubstr("\"data_path\":[\"my_text_document\"]"));
  EXPECT_THAT(json, HasSubstr("\"lr_decay_style\":\"linear\""));
}

TEST(Config, HelpNamesEveryGroup) {
  const auto parsed = parse_arguments({"--help"});
  ASSERT_TRUE(parsed.help);
  EXPECT_THAT(*parsed.help, HasSubstr("Optimizer and learning rate"));
  EXPECT_THAT(*parsed.help, HasSubstr("--lr-warmup-samples"));
}

}  // namespace
}  // namespace weft
