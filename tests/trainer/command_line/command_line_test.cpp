// Tests what the options mean, and how a configuration is written down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>

#include "tests/trainer/command_line/command_lines.h"
#include "trainer/command_line/option_text.h"
#include "trainer/model/recompute.h"

namespace weft {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
                          "unknown flag --zzzzzzzzzzzzzzzz; --help-all lists all"));
}

TEST(Config, NamesOfOtherTrainersLeadToMegatrons) {
  EXPECT_THAT(problems_of(kGood + "--learning-rate 1e-4 --max-steps 7"),
              ElementsAre("unknown flag --learning-rate: Megatron's name for it is --lr",
                          "unknown flag --max-steps: Megatron's name for it is --train-iters"));
}

TEST(Config, ShortHelpIsHelp) { EXPECT_TRUE(parse_arguments({"-h"}).help.has_value()); }

TEST(Config, FlagsAreNotAbbreviated) {
  EXPECT_THAT(problems_of(kGood + "--num-layer 4"),
              Contains(HasSubstr("did you mean --num-layers?")));
}

// As in Megatron, so that a script may append what it changes.
TEST(Config, TheLastOfEqualListsCountsAndIsTold) {
  const ParsedArguments parsed = parse_arguments(words(
      kGood + "--recompute-modules layernorm mlp --data-path 0.5 a 0.5 b --recompute-modules mlp"));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_THAT(parsed.config.paths.data_path, ElementsAre("0.5", "a", "0.5", "b"));
  EXPECT_THAT(parsed.config.recompute_modules, ElementsAre("mlp"));
  EXPECT_THAT(parsed.notes,
              ElementsAre("--data-path is given more than once: the last one counts",
                          "--recompute-modules is given more than once: the last one counts"));
  EXPECT_THAT(parse_arguments(words("--rampup-batch-size 2 2 8 --rampup-batch-size 4 4 9"))
                  .config.rampup_batch_size,
              ElementsAre(4, 4, 9));
}

TEST(Config, AValueThatCannotBeReadIsTheOnlyProblemOfItsFlag) {
  EXPECT_THAT(problems_of(kGood + "--train-iters 1e3 --lr nan"),
              ElementsAre("--train-iters 1e3: is not an integer", "--lr nan: is not a number"));
  EXPECT_THAT(problems_of("--bf16=x " + kGood), ElementsAre(HasSubstr("--bf16")));
  // Others are still told.
  EXPECT_THAT(
      problems_of(kGood + "--train-iters 1e3 --lr -1"),
      ElementsAre("--train-iters 1e3: is not an integer",
                  HasSubstr("--lr is required and must be positive"), HasSubstr("--min-lr")));
}

TEST(Config, FlagsOfMegatronAreNotTakenForOthersThatLookAlike) {
  for (const char* flag : {"--window-size (7,0)", "--num-experts 8", "--multi-latent-attention",
                           "--embedding-dropout 0.1", "--no-position-embedding"}) {
    const auto problems = problems_of(kGood + flag);
    ASSERT_EQ(problems.size(), 1U) << flag;
    EXPECT_THAT(problems[0], HasSubstr("not supported")) << flag;
    EXPECT_THAT(problems[0], testing::Not(HasSubstr("did you mean"))) << flag;
  }
  EXPECT_THAT(
      problems_of(kGood + "--no-position-embedding"),
      ElementsAre("--no-position-embedding is not supported: give --position-embedding-type none"));
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
  EXPECT_EQ(parsed.notes.size(), 9U);
  EXPECT_THAT(
      parsed.notes,
      Contains("--use-flash-attn has no effect: the head size chooses attention's kernels"));
}

TEST(Config, MegatronFlagsThatAreNotBuiltAreRefused) {
  EXPECT_THAT(
      problems_of(kGood +
                  "--first-last-layers-bf16 --checkpoint-in-cpu --pipeline-model-parallel-size 2 "
                  "--position-embedding-type t5 --dataloader-type external"),
      testing::UnorderedElementsAre(
          "--first-last-layers-bf16 is not supported yet: all layers have fp8 products, or none: leave the "
          "flag out",
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
  for (const char* flags : {"--fp16 --device cuda", "--fp16 --dry-run --device-profile h200"})
    EXPECT_THAT(parse_arguments(words(kGood + flags)).problems, IsEmpty()) << flags;
  for (const auto& [flags, problem] : {
           std::pair{"--fp16 --bf16", "--fp16 and --bf16 exclude each other"},
           {"--fp16 --loss-scale 0", "--loss-scale must be positive and at most 2^127 (got 0)"},
           {"--fp16 --initial-loss-scale inf", "--initial-loss-scale inf: is not a number"},
           {"--fp16 --min-loss-scale 8 --initial-loss-scale 4",
            "--min-loss-scale 8 must be positive and at most --initial-loss-scale 4"},
           {"--fp16 --loss-scale-window 0", "--loss-scale-window must be at least 1 (got 0)"},
           {"--fp16 --hysteresis 0", "--hysteresis must be at least 1 (got 0)"},
           {"--skip-bad-steps -1", "--skip-bad-steps must be at least 0 (got -1)"},
           {"--fp32-residual-connection", "--fp32-residual-connection needs --bf16 or --fp16"},
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
  EXPECT_THAT(warnings("--bf16 --hysteresis 3"),
              Contains("--hysteresis 3 has no effect without --fp16"));
  EXPECT_THAT(warnings("--initial-loss-scale 1024"),
              Contains("--initial-loss-scale 1024 has no effect without --fp16"));
  EXPECT_THAT(warnings("--fp16 --loss-scale 4096 --loss-scale-window 5"),
              Contains("--loss-scale-window 5 has no effect: --loss-scale is constant"));
  EXPECT_THAT(warnings("--fp16 --min-loss-scale 2 --hysteresis 3"),
              Not(Contains(HasSubstr("has no effect"))));
  EXPECT_THAT(warnings("--bf16 --fp8-recipe tensorwise"),
              Contains("--fp8-recipe tensorwise has no effect without --fp8-format"));
  EXPECT_THAT(warnings("--bf16 --fp8-margin 1"),
              Contains("--fp8-margin 1 has no effect without --fp8-format"));
  const std::string tensorwise = "--bf16 --fp8-format hybrid --fp8-recipe tensorwise ";
  EXPECT_THAT(warnings(tensorwise + "--fp8-amax-history-len 4"),
              Contains("--fp8-amax-history-len 4 has no effect: --fp8-recipe is tensorwise"));
  EXPECT_THAT(warnings("--bf16 --fp8-format hybrid --fp8-amax-compute-algo max"),
              Not(Contains(HasSubstr("has no effect"))));
}

TEST(Config, MegatronCoresPipelineFlagsNameOurs) {
  EXPECT_THAT(problems_of(kGood + "--pipeline-model-parallel-layout Et*2|L"),
              ElementsAre(HasSubstr("to --pp-partition-method")));
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
  EXPECT_FALSE(options_of(selective + "layernorm").recomputes_activation());
  const RecomputeOptions cheap = options_of(selective + "layernorm activation");
  EXPECT_TRUE(cheap.norms && cheap.activation);
  EXPECT_FALSE(cheap.mlp);
  const RecomputeOptions parts =
      options_of("--recompute-activations --recompute-modules core_attn mlp layernorm");
  EXPECT_TRUE(parts.norms && parts.mlp);
  EXPECT_EQ(parts.method, Method::kNone);
  // Megatron's default is the scores of attention, which are never kept.
  const RecomputeOptions scores = options_of("--recompute-activations");
  EXPECT_FALSE(scores.norms || scores.mlp);
  for (const char* flags :
       {"--recompute-activations", "--recompute-activations --recompute-modules core_attn"}) {
    EXPECT_THAT(warnings_of(parse_arguments(words(kGood + flags)).config),
                Contains(HasSubstr("recomputes nothing here")));
  }
}

// The shape must be there before the layers are shared among stages: a missing part was divided by.
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
  const auto parsed = parse_arguments({"--help-all"});
  ASSERT_TRUE(parsed.help);
  EXPECT_THAT(*parsed.help, HasSubstr("Optimizer and learning rate"));
  EXPECT_THAT(*parsed.help, HasSubstr("--lr-warmup-samples"));
}

TEST(Config, CompletionAndManPageHaveEveryOptionOfTheHelp) {
  const std::string bash = parse_arguments({"completion", "bash"}).help.value();
  const std::string zsh = parse_arguments({"completion", "zsh"}).help.value();
  const std::string man = parse_arguments({"man"}).help.value();
  EXPECT_THAT(bash, HasSubstr("complete -o default -F _weft_train weft-train"));
  EXPECT_THAT(bash, HasSubstr("--lr-decay-style) words='constant linear cosine"));
  EXPECT_THAT(zsh, HasSubstr("#compdef weft-train"));
  EXPECT_THAT(man, HasSubstr(".SH OPTIONS\n.TP\n"));
  std::istringstream help(parse_arguments({"--help-all"}).help.value());
  int num_options = 0;
  for (std::string line; std::getline(help, line);) {
    const size_t begin = line.find("--"), end = line.find_first_of(" ,", begin);
    if (begin == std::string::npos || begin > 5) continue;  // options stand at the left
    const std::string option = line.substr(begin, end - begin);
    EXPECT_THAT(bash, HasSubstr(" " + option));
    EXPECT_THAT(zsh, HasSubstr("'" + option + ":"));
    EXPECT_THAT(man, HasSubstr("\\fB" + std::regex_replace(option, std::regex("-"), "\\-")));
    ++num_options;
  }
  EXPECT_GT(num_options, 150);
}

}  // namespace
}  // namespace weft
