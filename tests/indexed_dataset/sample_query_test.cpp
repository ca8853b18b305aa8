#include "indexed_dataset/blends/sample_query.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft
