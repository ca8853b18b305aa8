#include "trainer/data/batch_schedule.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Config samples_config(int64_t train_samples, int64_t global_batch,
                      std::vector<int64_t> rampup = {}) {
  Config config;
  config.seq_length = 2048;
  config.micro_batch_size = 1;
  config.global_batch_size = global_batch;
  config.train_samples = train_samples;
  config.rampup_batch_size = std::move(rampup);
  return config;
}

TEST(BatchSchedule, IterationsFromSamples) {
  EXPECT_EQ(BatchSchedule(samples_config(146484375, 288)).num_iterations(), 508626);
  EXPECT_EQ(BatchSchedule(samples_config(146484375, 2)).num_iterations(), 73242187);
}

// Iteration counts that tr8 and tr11 of BigScience printed ("setting training iterations to N").
TEST(BatchSchedule, IterationsOfRampUps) {
  EXPECT_EQ(BatchSchedule(samples_config(220'000'000, 2048, {192, 16, 9'765'625})).num_iterations(),
            115311);
  EXPECT_EQ(BatchSchedule(samples_config(300'000'000, 2048, {16, 16, 6'000'000})).num_iterations(),
            159576);
  EXPECT_EQ(BatchSchedule(samples_config(300'000'000, 1024, {16, 16, 5'000'000})).num_iterations(),
            311541);
}

TEST(BatchSchedule, ConsumedSamplesOfRampUps) {
  const BatchSchedule tr11(samples_config(220'000'000, 2048, {192, 16, 9'765'625}));
  EXPECT_EQ(tr11.after(12658).consumed.rows, 9765808);  // the ramp's part
  EXPECT_EQ(tr11.after(12695).consumed.rows, 9841584);
  EXPECT_EQ(tr11.after(31214).consumed.rows, 47768496);
  const BatchSchedule tr8(samples_config(300'000'000, 2048, {16, 16, 6'000'000}));
  EXPECT_EQ(tr8.after(7000).consumed.rows, 260912);
}

TEST(BatchSchedule, BatchGrowsAndStaysFull) {
  const BatchSchedule schedule(samples_config(1000, 8, {2, 2, 30}));
  EXPECT_EQ(schedule.global_batch_size(0), 2);
  EXPECT_EQ(schedule.global_batch_size(9), 2);
  EXPECT_EQ(schedule.global_batch_size(10), 4);
  EXPECT_EQ(schedule.global_batch_size(20), 6);
  EXPECT_EQ(schedule.global_batch_size(30), 8);
  EXPECT_EQ(schedule.global_batch_size(31), 8);
}

TEST(BatchSchedule, ARunThatGoesOnWithOtherSizesTakesAllOfItsSamples) {
  BatchSchedule schedule(samples_config(4000, 8));
  EXPECT_EQ(schedule.num_iterations(), 500);
  schedule.resume_at({250, {2000, 0}});  // as it would have come without a change
  EXPECT_EQ(schedule.num_iterations(), 500);
  schedule.resume_at({500, {2000, 0}});  // 500 steps of 4 samples before
  EXPECT_EQ(schedule.num_iterations(), 750);
  EXPECT_EQ(schedule.at_end({500, {2000, 0}}).consumed.rows, 4000);
  schedule.resume_at({700, {4000, 0}});
  EXPECT_EQ(schedule.num_iterations(), 700);
  Config by_iterations = samples_config(4000, 8);
  by_iterations.train_samples.reset();
  by_iterations.train_iters = 600;
  BatchSchedule steps(by_iterations);
  steps.resume_at({500, {2000, 0}});
  EXPECT_EQ(steps.num_iterations(), 600);
}

TEST(BatchSchedule, MicroBatchesFillTheGlobalBatch) {
  Config config = samples_config(1000, 24);
  config.micro_batch_size = 3;
  EXPECT_EQ(BatchSchedule(config).num_micro_batches(0), 8);
  config.world_size = 4;
  EXPECT_EQ(BatchSchedule(config).num_micro_batches(0), 2);
  config.global_batch_size.reset();
  EXPECT_EQ(BatchSchedule(config).global_batch_size(0), 12);
}

TEST(BatchSchedule, IterationBasedRunsCountTheirSamples) {
  Config config;
  config.micro_batch_size = 2;
  config.global_batch_size = 6;
  config.train_iters = 50;
  EXPECT_EQ(BatchSchedule(config).num_iterations(), 50);
  EXPECT_EQ(BatchSchedule(config).num_train_samples(), 300);
}

TEST(BatchSchedule, ARunShorterThanItsRampUpEndsWithTheLastWholeBatch) {
  const BatchSchedule schedule(samples_config(13, 8, {2, 2, 30}));  // 2 2 2 2 2 | 4 would pass 13
  EXPECT_EQ(schedule.num_iterations(), 5);
  EXPECT_EQ(schedule.after(5).consumed.rows, 10);
}

}  // namespace
}  // namespace weft
