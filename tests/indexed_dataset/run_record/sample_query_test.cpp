#include "indexed_dataset/run_record/sample_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/run_record/manifest_order.h"
#include "indexed_dataset/run_record/run_timeline.h"

namespace weft {
namespace {

RunTimeline timeline_of(const SampleOrder& order) {
  std::vector<RunSegment> segments(1);
  segments[0].order = order;
  return RunTimeline(std::move(segments));
}
std::pair<int64_t, int64_t> samples_of(const RunTimeline& run, int64_t iteration) {
  const Stretch stretch = run.of_iteration(iteration);
  return {stretch.first, stretch.last};
}

TEST(RunTimeline, IterationsTakeConsecutiveSamples) {
  SampleOrder order;
  order.global_batch_size = 432;
  const RunTimeline run = timeline_of(order);
  EXPECT_EQ(samples_of(run, 1), (std::pair<int64_t, int64_t>{0, 432}));
  EXPECT_EQ(samples_of(run, 100), (std::pair<int64_t, int64_t>{99 * 432, 100 * 432}));
}

TEST(RunTimeline, RefusesIterationsWhoseSamplesDoNotFit) {
  SampleOrder order;
  order.global_batch_size = 64;
  const RunTimeline run = timeline_of(order);
  EXPECT_EQ(samples_of(run, int64_t{1} << 50).first, ((int64_t{1} << 50) - 1) * 64);
  for (const int64_t iteration : {INT64_MAX, (int64_t{1} << 57) + 1, int64_t{1} << 57}) {
    EXPECT_THROW(run.of_iteration(iteration), std::invalid_argument) << iteration;
  }
}

TEST(RunTimeline, IterationsFollowTheRampUp) {
  // 32 -> 64 by 16 within 100 samples: two increments of 50 samples each.
  SampleOrder order;
  order.global_batch_size = 64;
  order.rampup_batch_size = {32, 16, 100};
  const RunTimeline run = timeline_of(order);
  const std::vector<std::pair<int64_t, int64_t>> expected{
      {0, 32}, {32, 64}, {64, 112}, {112, 176}, {176, 240}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(samples_of(run, static_cast<int64_t>(i) + 1), expected[i]) << i;
  }
  EXPECT_EQ(samples_of(run, 1000005).first, 176 + int64_t{64} * 1000000);
}

// A range is one stretch for each segment, however long it is, and holds what its iterations hold.
TEST(RunTimeline, ARangeHoldsWhatItsIterationsHold) {
  std::vector<RunSegment> segments(2);
  segments[0].order.global_batch_size = 4;
  segments[1].order.global_batch_size = 8;
  segments[1].order.rampup_batch_size = {2, 2, 60};
  segments[1].resumed = {.iteration = 10, .samples = 40};
  const RunTimeline run(std::move(segments));
  for (int64_t first = 1; first <= 40; ++first) {
    for (int64_t last = first; last <= 40; ++last) {
      const std::vector<Stretch> range = run.of_range(first, last);
      ASSERT_EQ(range.size(), first <= 10 && last > 10 ? 2U : 1U);
      EXPECT_EQ(range.front().first, run.of_iteration(first).first);
      EXPECT_EQ(range.back().last, run.of_iteration(last).last);
      EXPECT_EQ(range.front().segment, run.of_iteration(first).segment);
      if (range.size() == 2) {
        EXPECT_EQ(range[0].last, range[1].first);
      }
    }
  }
  EXPECT_EQ(run.of_range(1, 1'000'000).size(), 2U);
}

// weft-train and Megatron ask for 72 validation samples: evaluations follow iterations, and there
// are more of these while batches are small.
TEST(SampleOrder, ChangingBatchesAskForMoreValidationSamples) {
  SampleOrder order;
  order.global_batch_size = 8;
  order.train_samples = 400;
  order.eval_iters = 1;
  order.eval_interval = 10;
  EXPECT_EQ(target_sizes_of(order, 1).valid_samples, 48);
  order.rampup_batch_size = {2, 2, 200};
  EXPECT_EQ(target_sizes_of(order, 1).valid_samples, 72);
  EXPECT_EQ(num_asked_samples(order, Split::kValid), 72);
  EXPECT_EQ(target_sizes_of(order, 1).test_samples, 8);
  EXPECT_EQ(target_sizes_of(order, 1).train_samples, 400);
  order.rampup_batch_size = {};
  order.seq_length = 16;
  order.step_batch_size_schedule = "0:2 3200:8";  // 100 iterations of 2 samples, 25 of 8
  EXPECT_EQ(target_sizes_of(order, 1).valid_samples, 104);
}

// The numbers are those of update_train_iters() of Megatron, before and after it left a ramp where
// training ends: 54 and 55 iterations for 150 samples, 59 both times for 180, 62 and 61 for 200, 63
// both times for 210.
TEST(SampleOrder, ValidationOfMegatronIsKnownWhereItsVersionsAgree) {
  SampleOrder order;
  order.takes_megatron_caches = true;
  order.global_batch_size = 8;
  order.rampup_batch_size = {2, 2, 200};
  order.eval_iters = 1;
  const auto refusal = [&] {
    try {
      num_asked_samples(order, Split::kValid);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const auto& [train_samples, newer, older] :
       {std::tuple{150, 54, 55}, {180, 59, 59}, {200, 62, 61}, {210, 63, 63}, {400, 86, 86}}) {
    SCOPED_TRACE(train_samples);
    order.train_samples = train_samples;
    for (const int64_t interval : {1, 2, 5, 31, 55, 60, 62, 100}) {
      SCOPED_TRACE(interval);
      order.eval_interval = interval;
      const int64_t of_newer = (newer / interval + 1) * 8, of_older = (older / interval + 1) * 8;
      order.sample_order = OrderKind::kCore;
      if (of_newer == of_older) {
        EXPECT_EQ(num_asked_samples(order, Split::kValid), of_newer);
      } else {
        EXPECT_THAT(
            refusal(),
            testing::AllOf(
                testing::HasSubstr("with rampup_batch_size 2 2 200 and train_samples"),
                testing::HasSubstr(std::to_string(of_newer) + " or " + std::to_string(of_older))));
      }
      order.sample_order = OrderKind::kBigscience;
      EXPECT_EQ(num_asked_samples(order, Split::kValid), of_older);
      EXPECT_EQ(num_asked_samples(order, Split::kTest), 8);
      EXPECT_EQ(num_asked_samples(order, Split::kTrain), train_samples);
    }
  }
}

// A manifest may hold anything.
TEST(SampleOrder, AStepScheduleIsNotDividedByALengthOfZero) {
  const nlohmann::ordered_json manifest = {{"arguments",
                                            {{"data_path", "a"},
                                             {"split", "100,0,0"},
                                             {"seq_length", 0},
                                             {"seed", 1},
                                             {"eval_iters", 0},
                                             {"eval_interval", 1},
                                             {"step_batch_size_schedule", "0:2 3200:8"}}}};
  EXPECT_THROW(sample_order_from(manifest), std::runtime_error);
}

// Before Megatron-Core an evaluation had the batch size of the iteration before it.
TEST(SampleOrder, EvaluationsOfOldProgramsAreNotComputedWhereBatchesChange) {
  SampleOrder order;
  order.global_batch_size = 8;
  order.train_iters = 40;
  order.eval_iters = 1;
  order.eval_interval = 10;
  order.blends.blends.fill({Blend{.name = "", .prefixes = {"a"}, .weights = {}, .shares = {}}});
  order.takes_megatron_caches = true;
  for (const auto& [name, kind] : kOrderKinds) {
    SCOPED_TRACE(name);
    order.sample_order = kind;
    order.rampup_batch_size = {};
    const auto second = [&] { return timeline_of(order).of_range(20, 20, Split::kValid).at(0); };
    EXPECT_EQ(second().first, 8);
    order.rampup_batch_size = {2, 2, 200};
    if (rules_of(kind).precedes_core) {
      EXPECT_THROW(second(), std::runtime_error);
    } else {
      EXPECT_EQ(second().first, 8);
    }
  }
}

}  // namespace
}  // namespace weft
