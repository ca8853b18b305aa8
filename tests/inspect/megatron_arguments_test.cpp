// Arguments of runs that Weft did not train.
#include "inspect/lookup/megatron_arguments.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/blends/sample_query.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kBanner =
    "using world size: 8, data-parallel-size: 4\n"
    "------------------------ arguments ------------------------\n"
    "  accumulate_allreduce_grads_in_fp32 .............. False\n"
    "  curriculum_learning ............................. False\n"
    "  data_parallel_size .............................. 4\n"
    "  data_path ....................................... ['0.4', '/data/a b', '0.6', '/data/c']\n"
    "  dataloader_type ................................. single\n"
    "  eval_interval ................................... 150\n"
    "  eval_iters ...................................... 5\n"
    "  global_batch_size ............................... 2048\n"
    "  micro_batch_size ................................ 2\n"
    "  phase_transition_iterations ..................... None\n"
    "  rampup_batch_size ............................... ['16', '16', '6_000_000']\n"
    "  seed ............................................ 43\n"
    "  seq_length ...................................... 2048\n"
    "  split ........................................... 949,50,1\n"
    "  train_iters ..................................... None\n"
    "  train_samples ................................... 300000000\n"
    "-------------------- end of arguments ---------------------\n"
    "setting number of micro-batches to constant 288\n";

void expect_those_of_tr8(const SampleOrder& order) {
  EXPECT_EQ(order.data.seed, 43);
  EXPECT_EQ(order.data.sequence_length, 2048);
  EXPECT_EQ(order.data.split, "949,50,1");
  EXPECT_EQ(order.train_samples, 300'000'000);
  EXPECT_EQ(order.train_iters, std::nullopt);
  EXPECT_EQ(order.global_batch_size, 2048);
  EXPECT_EQ(order.micro_batch_size, 2);
  EXPECT_EQ(order.data_parallel_size, 4);
  EXPECT_EQ(order.eval_iters, 5);
  EXPECT_EQ(order.eval_interval, 150);
  EXPECT_THAT(order.rampup_batch_size, ElementsAre(16, 16, 6'000'000));
  const Blend& blend = order.data.blends.of(Split::kTrain).at(0);
  EXPECT_THAT(blend.prefixes, ElementsAre("/data/a b", "/data/c"));
  EXPECT_THAT(blend.weights, ElementsAre(0.4, 0.6));
}

TEST(MegatronArguments, OfABannerAreReadBehindAnyPrefix) {
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(kBanner)));
  std::string with_prefix = "  3: ";
  for (const char c : kBanner)
    with_prefix += c == '\n' ? std::string("\n  3: ") : std::string(1, c);
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(with_prefix)));
}

TEST(MegatronArguments, OfACommandLineAreDividedAsAShellDoes) {
  const std::string words =
      "python -u pretrain_gpt.py --seed 43 --seq-length 2048 \\\n  --split '949,50,1' # weights\n"
      "  --train-samples=300_000_000 --global-batch-size 2048 --micro-batch-size 2 \\\r\n"
      "  --rampup-batch-size 16 16 6_000_000 --data-path 0.4 \"/data/a b\" 0.6 /data/c\n"
      "  --eval-iters 5 --eval-interval 150 --bf16\n";
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(words, 4)));
}

TEST(MegatronArguments, OfTheLastBannerOfALogCount) {
  std::string again = kBanner;
  again.replace(again.find("43\n"), 2, "44");
  EXPECT_EQ(sample_order_from(parse_megatron_arguments(kBanner + again)).data.seed, 44);
}

TEST(MegatronArguments, HaveMegatronsDefaults) {
  const SampleOrder order = sample_order_from(parse_megatron_arguments(
      "--seq-length 8 --train-iters 3 --micro-batch-size 2 --data-path a", 3));
  EXPECT_EQ(order.data.seed, 1234);
  EXPECT_EQ(order.data.split, "969, 30, 1");
  EXPECT_EQ(order.global_batch_size, 6);
  EXPECT_EQ(order.eval_iters, 100);
  EXPECT_EQ(order.eval_interval, 1000);
}

TEST(MegatronArguments, ThatSkipNothingAndNameNoFileOfDeepSpeedAreTaken) {
  std::string banner = kBanner;
  banner.insert(banner.find("  eval_interval"),
                "  deepspeed_config ................................ None\n"
                "  iterations_to_skip .............................. []\n");
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(banner)));
}

TEST(MegatronArguments, AndTheOptionMustNotContradictEachOther) {
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(kBanner, 4)));
  try {
    parse_megatron_arguments(kBanner, 8);
    ADD_FAILURE() << "another number of ranks is taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("data_parallel_size 4, and --data-parallel-size is 8"));
  }
}

TEST(MegatronArguments, ThatLeaveTheSamplesUnknownAreRefused) {
  const std::string good = "--seq-length 8 --train-iters 3 --global-batch-size 2 --data-path a ";
  parse_megatron_arguments(good);
  const std::pair<std::string, const char*> refused[] = {
      {"", "neither a banner"},
      {"no flags", "neither a banner"},
      {"--- arguments ---\n seed ... 4\n", "has no end"},
      {good + "--data-path $DATA", "a shell would replace $DATA"},
      {good + "--split '1,2", "quote without its end"},
      {good + "--curriculum-learning", "with curriculum_learning True"},
      {good + "--iterations-to-skip 5 6", "with iterations_to_skip 5"},
      {good + "--deepspeed --deepspeed_config ds.json",
       "with deepspeed_config ds.json a run follows that file, too, which is not read here"},
      {good + "--phase-transition-iterations 5,6", "with phase_transition_iterations 5,6"},
      {good + "--dataloader-type batch", "with dataloader_type batch"},
      {good + "--dataloader-type cyclic", "data_parallel_size, which it does not both tell"},
      {good + "--seed x", "seed is 'x', which is no integer"},
      {good + "--rampup-batch-size 1 2 z", "'z', which is no integer"},
      {"--train-iters 3 --global-batch-size 2 --data-path a", "does not tell seq_length"},
      {"--seq-length 8 --global-batch-size 2 --data-path a",
       "neither train_samples nor train_iters"},
      {"--seq-length 8 --train-iters 3 --data-path a", "tells neither global_batch_size"},
  };
  for (const auto& [text, message] : refused) {
    try {
      parse_megatron_arguments(text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  }
}

}  // namespace
}  // namespace weft
