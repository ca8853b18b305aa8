#include "trainer/config/lr_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/data/batch_schedule.h"

namespace weft {
namespace {

std::string printed(const LrSchedule& schedule, int64_t num_steps) {
  return fmt::format("{:.3E}", schedule.at(num_steps));
}

// Log lines of Megatron-LM training a GPT on Slurm: lr 6e-5, warm-up 183105 samples, cosine.
TEST(LrSchedule, MatchesMegatronUnderWarmup) {
  const LrSchedule schedule({.max_lr = 6e-5,
                             .min_lr = 6e-6,
                             .warmup_steps = 183105,
                             .decay_steps = 126953125,
                             .style = LrDecayStyle::kCosine});
  EXPECT_EQ(printed(schedule, 50), "1.638E-08");
  EXPECT_EQ(printed(schedule, 52), "1.704E-08");
  EXPECT_EQ(printed(schedule, 54), "1.769E-08");
  EXPECT_EQ(schedule.current(), 0.0);
}

// A BigScience GPT-2 log, iteration 200 with 19 skipped: the schedule advances by successful steps
// only.
TEST(LrSchedule, MatchesMegatronWithSkippedSteps) {
  Config config;
  config.lr = 1.5e-4;
  config.min_lr = 1e-5;
  config.train_iters = 1000;
  config.lr_decay_iters = 800;
  config.global_batch_size = 4;
  config.lr_warmup_fraction = .01;
  config.lr_decay_style = LrDecayStyle::kCosine;
  LrSchedule schedule(lr_settings(config));
  EXPECT_EQ(schedule.settings().warmup_steps, 32);
  for (int step = 0; step < 200 - 19; ++step) schedule.advance(4);
  EXPECT_EQ(fmt::format("{:.3E}", schedule.current()), "1.342E-04");
}

// tr11-176B log: lr 6e-5 min 6e-6 warm-up 183105, decay over 200 M samples.
TEST(LrSchedule, MatchesMegatronInMidCosine) {
  const LrSchedule schedule({.max_lr = 6e-5,
                             .min_lr = 6e-6,
                             .warmup_steps = 183105,
                             .decay_steps = 200'000'000,
                             .style = LrDecayStyle::kCosine});
  EXPECT_EQ(printed(schedule, 9841584), "5.969E-05");
  EXPECT_EQ(printed(schedule, 47768496), "5.279E-05");
  EXPECT_EQ(printed(schedule, 158692272), "1.150E-05");
  EXPECT_EQ(printed(schedule, 200'000'001), "6.000E-06");
}

TEST(LrSchedule, LinearConstantAndInverseSquareRoot) {
  LrSettings settings{.max_lr = 1.0, .min_lr = 0.2, .warmup_steps = 100, .decay_steps = 500};
  settings.style = LrDecayStyle::kLinear;
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(50), 0.5);
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(100), 1.0);
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(300), 0.6);
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(500), 0.2);
  settings.style = LrDecayStyle::kConstant;
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(10'000), 1.0);
  settings.style = LrDecayStyle::kInverseSquareRoot;
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(400), 0.5);
  EXPECT_DOUBLE_EQ(LrSchedule(settings).at(501), 0.2);
}

// The numbers are those of get_wd() [Megatron-LM core/optimizer_param_scheduler.py], computed by
// Python for wd_incr_steps 96 and a batch of 8 samples.
TEST(LrSchedule, WeightDecayGrowsAsMegatrons) {
  Config config;
  config.train_iters = 12;
  config.lr_decay_iters = 5;  // The weight decay grows to the end of the run.
  config.global_batch_size = 8;
  config.start_weight_decay = 0.01;
  config.end_weight_decay = 0.1;
  const std::vector<double> linear = {0.01, 0.0175, 0.025, 0.0325, 0.04, 0.0475, 0.055, 0.0625,
                                      0.07, 0.0775, 0.085, 0.0925, 0.1,  0.1,    0.1};
  const std::vector<double> cosine = {0.01,
                                      0.011533337816991932,
                                      0.01602885682970026,
                                      0.023180194846605363,
                                      0.0325,
                                      0.04335314297038659,
                                      0.055,
                                      0.06664685702961345,
                                      0.0775,
                                      0.08681980515339464,
                                      0.09397114317029975,
                                      0.09846666218300808,
                                      0.1,
                                      0.1,
                                      0.1};
  for (const auto& [style, expected] : {std::pair(WeightDecayStyle::kLinear, linear),
                                        std::pair(WeightDecayStyle::kCosine, cosine)}) {
    config.weight_decay_incr_style = style;
    LrSchedule schedule(lr_settings(config));
    for (const double weight_decay : expected) {
      EXPECT_NEAR(schedule.current_weight_decay(), weight_decay, 1e-16);
      schedule.advance(8);
    }
  }
  config.weight_decay_incr_style = WeightDecayStyle::kConstant;
  config.start_weight_decay = config.end_weight_decay;
  LrSchedule constant(lr_settings(config));
  EXPECT_EQ(constant.current_weight_decay(), 0.1);
  constant.advance(200);
  EXPECT_EQ(constant.current_weight_decay(), 0.1);
}

TEST(LrSchedule, WithoutWarmupStartsAtThePeak) {
  EXPECT_DOUBLE_EQ(LrSchedule({.max_lr = 3.0, .decay_steps = 10}).at(0), 3.0);
}

TEST(LrSchedule, ResumingWithAnotherScheduleIsAnErrorInMegatronsWords) {
  const LrSettings ours{.max_lr = 1e-5, .decay_steps = 10},
      saved{.max_lr = 3e-5, .decay_steps = 10};
  try {
    reconcile(ours, saved, LrConflict::kFail);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(),
                testing::StartsWith("AnnealingLR: class input value 1e-05 and checkpoint value "
                                    "3e-05 for learning rate do not match"));
  }
  EXPECT_EQ(reconcile(ours, saved, LrConflict::kCommandLineWins).max_lr, 1e-5);
  EXPECT_EQ(reconcile(ours, saved, LrConflict::kCheckpointWins).max_lr, 3e-5);
  EXPECT_EQ(reconcile(saved, saved, LrConflict::kFail).max_lr, 3e-5);
}

struct RecipeStep {
  int64_t iteration, length, samples, tokens;
  double learning_rate;
};

// BigScience's tr8-104B with a curriculum: warm-up in samples, decay in tokens. The expected
// numbers are those of a Python program that follows DeepSpeed's scheduler and Megatron-DeepSpeed's
// AnnealingLR step by step, and of the same program with our way to count tokens.
void check_recipe(bool as_deepspeed, const std::vector<RecipeStep>& expected) {
  Config config;
  config.seq_length = 2048;
  config.micro_batch_size = 1;
  config.global_batch_size = 2048;
  config.lr = 6e-5;
  config.min_lr = 6e-6;
  config.lr_decay_style = LrDecayStyle::kCosine;
  config.train_samples = 2 * 146'484'375;
  config.train_tokens = 300'000'000'000;
  config.lr_decay_samples = 126'953'125;
  config.lr_decay_tokens = int64_t{126'953'125} * 2048;
  config.lr_warmup_samples = 216'320;
  config.lr_tokens_as_deepspeed = as_deepspeed;
  config.curriculum = {.schedule_type = "fixed_linear",
                       .min_difficulty = 64,
                       .max_difficulty = 2048,
                       .total_step = 36000};
  const BatchSchedule schedule(config);
  EXPECT_EQ(schedule.num_iterations(), 89033);
  EXPECT_EQ(schedule.num_iterations_of_samples(), 143051);
  LrSchedule lr(lr_settings(config));
  RunPosition position;
  auto next = expected.begin();
  while (position.iteration < schedule.num_iterations()) {
    const RunPosition after = schedule.after(1, position);
    lr.advance(after.consumed.rows - position.consumed.rows, position.consumed.tokens,
               after.consumed.tokens);
    position = after;
    if (next == expected.end() || position.iteration != next->iteration) continue;
    SCOPED_TRACE(position.iteration);
    EXPECT_EQ(schedule.curriculum().length(position.iteration), next->length);
    EXPECT_EQ(position.consumed.rows, next->samples);
    EXPECT_EQ(position.consumed.tokens, next->tokens);
    EXPECT_DOUBLE_EQ(lr.current(), next->learning_rate);
    ++next;
  }
  EXPECT_EQ(next, expected.end());
  // Whole strides come to the same place.
  const RunPosition end = schedule.after(schedule.num_iterations());
  EXPECT_EQ(end.consumed.tokens, position.consumed.tokens);
  EXPECT_EQ(end.consumed.rows, position.consumed.rows);
}

TEST(LrSchedule, FollowsTheRecipeOfTr8AsDeepSpeedCounts) {
  check_recipe(true, {{1, 64, 2048, 131072, 5.680473372781065e-07},
                      {105, 64, 215040, 13762560, 5.9644970414201185e-05},
                      {106, 64, 217088, 13893632, 5.999999962667655e-05},
                      {107, 64, 219136, 14024704, 5.999999961953177e-05},
                      {146, 72, 299008, 19152896, 5.9999999288061186e-05},
                      {1000, 112, 2048000, 179486720, 5.999993666546843e-05},
                      {18000, 1056, 36864000, 20497432576, 5.917629173519091e-05},
                      {35999, 2040, 73725952, 77559758848, 4.898727043424414e-05},
                      {36000, 2048, 73728000, 77563953152, 4.8986172030205776e-05},
                      {36001, 2048, 73730048, 77568147456, 4.898506927772096e-05},
                      {60000, 2048, 122880000, 178227249152, 1.814284624225619e-05},
                      {89033, 2048, 182339584, 300000477184, 6e-06}});
}

TEST(LrSchedule, FollowsTheRecipeOfTr8) {
  check_recipe(false, {{1, 64, 2048, 131072, 5.680473372781065e-07},
                       {105, 64, 215040, 13762560, 5.9644970414201185e-05},
                       {106, 64, 217088, 13893632, 5.9999999999999995e-05},
                       {107, 64, 219136, 14024704, 5.999999999996614e-05},
                       {146, 72, 299008, 19152896, 5.9999999945476565e-05},
                       {1000, 112, 2048000, 179486720, 5.999994594728671e-05},
                       {18000, 1056, 36864000, 20497432576, 5.917714209490581e-05},
                       {35999, 2040, 73725952, 77559758848, 4.898873520101674e-05},
                       {36000, 2048, 73728000, 77563953152, 4.8987632485052204e-05},
                       {36001, 2048, 73730048, 77568147456, 4.898652972801968e-05},
                       {60000, 2048, 122880000, 178227249152, 1.814289408380561e-05},
                       {89033, 2048, 182339584, 300000477184, 6e-06}});
}

TEST(LrSchedule, WarmsUpInTokens) {
  LrSchedule lr({.max_lr = 1.0,
                 .min_lr = 0.0,
                 .style = LrDecayStyle::kLinear,
                 .decay_tokens = 900,
                 .warmup_tokens = 100});
  EXPECT_EQ(lr.current(), 0.0);
  lr.advance(8, 0, 50);
  EXPECT_DOUBLE_EQ(lr.current(), 0.5);
  lr.advance(8, 50, 100);
  EXPECT_DOUBLE_EQ(lr.current(), 1.0);
  lr.advance(8, 100, 300);
  EXPECT_DOUBLE_EQ(lr.current(), 0.75);
  lr.advance(8, 300, 901);
  EXPECT_EQ(lr.current(), 0.0);
}

}  // namespace
}  // namespace weft
