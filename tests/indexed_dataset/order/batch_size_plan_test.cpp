#include "indexed_dataset/order/batches/batch_size_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BatchSizePlan, StepsBeginAtTheirTokens) {
  const auto plan = BatchSizePlan::of_steps("0:768 250B:1536, 500B:3072 0.75T:6144", 2048);
  EXPECT_THAT(plan.sizes(), ElementsAre(768, 1536, 3072, 6144));
  EXPECT_TRUE(plan.changes());
  EXPECT_EQ(plan.last(), 6144);
  const int64_t second = 250'000'000'000 / 2048;
  EXPECT_EQ(plan.batch_size(0), 768);
  EXPECT_EQ(plan.batch_size(second - 1), 768);
  EXPECT_EQ(plan.batch_size(second), 1536);
  EXPECT_EQ(plan.batch_size(750'000'000'000 / 2048 - 1), 3072);
  EXPECT_EQ(plan.batch_size(int64_t{1} << 60), 6144);
  EXPECT_FALSE(BatchSizePlan::of_steps("0:8", 16).changes());
  EXPECT_EQ(BatchSizePlan::of_steps("0:8,1k:4", 16).largest(), 8);
}

TEST(BatchSizePlan, RefusesWhatIsNoSchedule) {
  const auto error = [](const char* schedule) -> std::string {
    try {
      BatchSizePlan::of_steps(schedule, 16);
    } catch (const std::invalid_argument& failure) {
      return failure.what();
    }
    return "(nothing was thrown)";
  };
  EXPECT_THAT(error(""), HasSubstr("the first size must be that from 0 on"));
  EXPECT_THAT(error("16:8"), HasSubstr("the first size must be that from 0 on"));
  EXPECT_THAT(error("0:8 64"), HasSubstr("64 has no colon"));
  for (const char* bad :
       {"0:0", "0:-1", "-1:8", "0:8x", "x:8", ":", "0:", "0:K", "nan:8", "1e30T:8", "0:inf"}) {
    EXPECT_THAT(error(bad), HasSubstr("is not TOKENS:SIZE")) << bad;
  }
  EXPECT_THAT(error("0:8 32:4 40:2"), HasSubstr("two sizes begin with sample 2"));
  // The last suffix is mistyped.
  EXPECT_THAT(error("0:768 250B:1536 500M:3072"),
              HasSubstr("500M:3072 comes after a size from 250000000000 tokens on"));
  EXPECT_THAT(error("1k:4,0:8"), HasSubstr("0:8 comes after a size from 1000 tokens on"));
  EXPECT_THAT(error("0:8 64:4 64:2"), HasSubstr("tokens must increase"));
}

// The sums against a loop over all batches.
TEST(BatchSizePlan, AgreesWithALoopOverBatches) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string schedule = "0:";
    schedule.append(std::to_string(1 + random() % 20));
    int64_t tokens = 0;
    for (unsigned step = random() % 4; step > 0; --step) {
      tokens += static_cast<int64_t>(16 * (1 + random() % 60) + random() % 16);
      schedule.append(" ").append(std::to_string(tokens)).append(":");
      schedule.append(std::to_string(1 + random() % 20));
    }
    const auto full = static_cast<int64_t>(4 + 2 * (random() % 10));
    const BatchSizePlan plan =
        random() % 3 == 0 ? BatchSizePlan(full, {2, 2, static_cast<int64_t>(1 + random() % 90)})
                          : BatchSizePlan::of_steps(schedule, 16);
    int64_t consumed = 0;
    for (int64_t iteration = 0; iteration < 60; ++iteration) {
      ASSERT_EQ(plan.consumed_after(iteration), consumed) << schedule << ", " << iteration;
      ASSERT_EQ(plan.consumed_after(60 - iteration, consumed), plan.consumed_after(60)) << schedule;
      const int64_t size = plan.batch_size(consumed);
      ASSERT_EQ(plan.iterations_within(consumed), iteration) << schedule;
      ASSERT_EQ(plan.iterations_within(consumed + size - 1), iteration) << schedule;
      consumed += size;
    }
  }
}

TEST(BatchSizePlan, TellsWhatDoesNotFit64Bits) {
  const auto plan = BatchSizePlan::of_steps("0:8 1M:4096", 16);
  EXPECT_FALSE(plan.consumed_after(INT64_MAX));
  EXPECT_EQ(plan.consumed_after(0, INT64_MAX), INT64_MAX);
}

}  // namespace
}  // namespace weft
