#include "indexed_dataset/order/blends/sample_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/order/blends/manifest_order.h"
#include "indexed_dataset/run_record/run_segments.h"

namespace weft {
namespace {

TEST(SampleOrder, IterationsTakeConsecutiveSamples) {
  SampleOrder order;
  order.global_batch_size = 432;
  EXPECT_EQ(samples_of_iteration(order, 1), (std::pair<int64_t, int64_t>{0, 432}));
  EXPECT_EQ(samples_of_iteration(order, 100), (std::pair<int64_t, int64_t>{99 * 432, 100 * 432}));
}

TEST(SampleOrder, RefusesIterationsWhoseSamplesDoNotFit) {
  SampleOrder order;
  order.global_batch_size = 64;
  EXPECT_EQ(samples_of_iteration(order, int64_t{1} << 50).first, ((int64_t{1} << 50) - 1) * 64);
  for (const int64_t iteration : {INT64_MAX, (int64_t{1} << 57) + 1, int64_t{1} << 57}) {
    EXPECT_THROW(samples_of_iteration(order, iteration), std::invalid_argument) << iteration;
  }
}

TEST(SampleOrder, IterationsFollowTheRampUp) {
  // 32 -> 64 by 16 within 100 samples: two increments of 50 samples each.
  SampleOrder order;
  order.global_batch_size = 64;
  order.rampup_batch_size = {32, 16, 100};
  const std::vector<std::pair<int64_t, int64_t>> expected{
      {0, 32}, {32, 64}, {64, 112}, {112, 176}, {176, 240}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(samples_of_iteration(order, static_cast<int64_t>(i) + 1), expected[i]) << i;
  }
  EXPECT_EQ(samples_of_iteration(order, 1000005).first, 176 + int64_t{64} * 1000000);
}

// weft-train and Megatron ask for 72 validation samples: evaluations follow iterations, and there are more of
// these while batches are small.
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
  order.data.sequence_length = 16;
  order.step_batch_size_schedule = "0:2 3200:8";  // 100 iterations of 2 samples, 25 of 8
  EXPECT_EQ(target_sizes_of(order, 1).valid_samples, 104);
}

// The numbers are those of update_train_iters() of Megatron, before and after it left a ramp where training
// ends: 54 and 55 iterations for 150 samples, 59 both times for 180, 62 and 61 for 200, 63 both times for 210.
TEST(SampleOrder, ValidationOfMegatronIsKnownWhereItsVersionsAgree) {
  SampleOrder order;
  order.data.takes_megatron_caches = true;
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
      order.data.order = OrderKind::kCore;
      if (of_newer == of_older) {
        EXPECT_EQ(num_asked_samples(order, Split::kValid), of_newer);
      } else {
        EXPECT_THAT(
            refusal(),
            testing::AllOf(
                testing::HasSubstr("with rampup_batch_size 2 2 200 and train_samples"),
                testing::HasSubstr(std::to_string(of_newer) + " or " + std::to_string(of_older))));
      }
      order.data.order = OrderKind::kBigscience;
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

// The file may say something else by now. One with arguments alone, of a run of Megatron, is taken at its word.
TEST(SampleOrder, AFileThatAManifestDoesNotTellIsNotReadInItsPlace) {
  nlohmann::ordered_json manifest = {{"program", "weft-train"},
                                     {"arguments",
                                      {{"data_args_path", "/nowhere/list"},
                                       {"split", "100,0,0"},
                                       {"seq_length", 16},
                                       {"seed", 1},
                                       {"eval_iters", 0},
                                       {"eval_interval", 1}}}};
  EXPECT_THAT([&] { sample_order_from(manifest).data.blends.of(Split::kTrain); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr(
                  "it does not tell what /nowhere/list said when the run began")));
  manifest.erase("program");
  EXPECT_THROW(sample_order_from(manifest), std::system_error);
}

// Before Megatron-Core an evaluation had the batch size of the iteration before it.
TEST(SampleOrder, EvaluationsOfOldProgramsAreNotComputedWhereBatchesChange) {
  RunSegment segment;
  segment.resumed_valid_samples = 0;
  SampleOrder& order = segment.order;
  order.global_batch_size = 8;
  order.train_samples = 400;
  order.eval_iters = 1;
  order.data.takes_megatron_caches = true;
  for (const auto& [name, kind] : kOrderKinds) {
    SCOPED_TRACE(name);
    order.data.order = kind;
    order.rampup_batch_size = {};
    EXPECT_EQ(samples_of_validation(segment, 1).first, 8);
    order.rampup_batch_size = {2, 2, 200};
    if (rules_of(kind).precedes_core) {
      EXPECT_THROW(samples_of_validation(segment, 1), std::runtime_error);
    } else {
      EXPECT_EQ(samples_of_validation(segment, 1).first, 8);
    }
  }
}

}  // namespace
}  // namespace weft
