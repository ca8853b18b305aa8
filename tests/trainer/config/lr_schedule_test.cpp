#include "trainer/config/lr_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft
