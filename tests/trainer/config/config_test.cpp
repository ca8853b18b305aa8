#include "trainer/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

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
  for (const std::string& problem : parsed.config.problems()) all.push_back(problem);
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
      "--accumulate-allreduce-grads-in-fp32 --dataloader-type single --attention-softmax-in-fp32"));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.notes.size(), 11U);
  EXPECT_THAT(parsed.notes, Contains("--use-flash-attn has no effect: attention is always fused"));
}

TEST(Config, MegatronFlagsThatAreNotBuiltAreRefused) {
  EXPECT_THAT(
      problems_of(
          kGood +
          "--fp16 --sequence-parallel --recompute-granularity full --tensor-model-parallel-size 2 "
          "--position-embedding-type rope --dataloader-type cyclic"),
      testing::UnorderedElementsAre(
          "--fp16 is not supported yet: use --bf16, or neither for fp32",
          "--sequence-parallel is not supported yet: this version trains in one process",
          HasSubstr("--recompute-granularity is not supported yet"),
          "--tensor-model-parallel-size 2 is not supported yet: only 1",
          "--position-embedding-type rope is not supported yet: only absolute|learned_absolute is",
          "--dataloader-type cyclic is not supported yet: only single is"));
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
        Case{"--layernorm-epsilon 0", "--layernorm-epsilon must be positive"},
        Case{"--init-method-std 0", "--init-method-std must be positive"},
        Case{"--attention-dropout 1", "--attention-dropout must be in [0, 1) (got 1)"},
        Case{"--hidden-dropout -0.1", "--hidden-dropout must be in [0, 1)"},
        Case{"--rampup-batch-size 2 2 100", "--rampup-batch-size needs --train-samples"},
        Case{"--rampup-batch-size 2 2", "takes START INCREMENT SAMPLES (got 2 values)"},
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
        Case{"--clip-grad -1", "--clip-grad must be at least 0"},
        Case{"--data-path 0.5 a 0.5 b", "blends of datasets are not supported yet"},
        Case{"--split 0,50,50", "--split 0,50,50 gives training 0 %"},
        Case{"--split a,b", "--split a,b: "},
        Case{"--save-interval 5", "--save-interval 5 needs --save"},
        Case{"--ckpt-step 5", "--ckpt-step 5 needs --load"},
        Case{"--finetune", "--finetune needs --load"},
        Case{"--log-interval 0", "--log-interval must be positive"},
        Case{"--timing-log-level 3", "--timing-log-level must be 0, 1 or 2"},
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
      ElementsAre(HasSubstr("reaches a batch of 14, not a multiple of --micro-batch-size 4")));
  EXPECT_THAT(
      problems_of(samples +
                  "--micro-batch-size 4 --global-batch-size 32 --rampup-batch-size 8 7 100"),
      ElementsAre(HasSubstr("a whole number of increments of 7")));
  EXPECT_THAT(
      problems_of(samples +
                  "--micro-batch-size 4 --global-batch-size 32 --rampup-batch-size 32 8 100"),
      ElementsAre(HasSubstr("a whole number of increments of 8")));
}

TEST(Config, ManyProcessesAreRefused) {
  setenv("WORLD_SIZE", "4", 1);
  const auto problems = problems_of(kGood);
  unsetenv("WORLD_SIZE");
  EXPECT_THAT(problems, ElementsAre(HasSubstr("started as one of 4 processes (WORLD_SIZE=4)")));
}

TEST(Config, AStaleFeedForwardSizeIsWarnedOf) {
  const auto parsed = parse_arguments(words(kGood + "--ffn-hidden-size 20480"));
  EXPECT_THAT(parsed.config.warnings(),
              Contains("--ffn-hidden-size 20480 is not 4 * --hidden-size (128)"));
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
  const auto resolved = config.resolved();
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
  const std::string json = config.resolved_json();
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
