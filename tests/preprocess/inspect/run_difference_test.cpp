// What is named as the cause of a difference between two runs.
#include "preprocess/inspect/lookup/run_difference.h"

#include <gmock/gmock.h>

namespace weft {
namespace {

using testing::ElementsAre;

// Iterations of 4, then 8, and from sample 200 on of 16 samples.
SampleOrder ramping() {
  SampleOrder order;
  order.train_samples = 4000;
  order.global_batch_size = 16;
  order.rampup_batch_size = {4, 4, 200};
  order.seq_length = 32;
  order.eval_iters = 0;
  order.blends.blends.fill({Blend{.name = "", .prefixes = {"a"}, .weights = {}, .shares = {}}});
  return order;
}

std::vector<std::string> reasons(const SampleOrder& a, const SampleOrder& b, int64_t first,
                                 int64_t last, const Resumption& resumed = {}) {
  const auto run_of = [&](const SampleOrder& order) {
    std::vector<RunSegment> segments(1);
    segments[0].order = order;
    segments[0].resumed = resumed;
    return RunTimeline(std::move(segments));
  };
  return compare_runs(run_of(a), run_of(b), first, last).reasons;
}

TEST(RunDifference, NamesOnlyArgumentsThatChangeSomethingInTheRange) {
  const SampleOrder ramp = ramping();
  SampleOrder other = ramp;
  other.seed = 5;
  other.rampup_batch_size.clear();
  const std::string seed = "--seed: 1234 and 5", rampup = "--rampup-batch-size: 4 4 200 and none";
  EXPECT_THAT(reasons(ramp, other, 1, 20), ElementsAre(seed, rampup));
  // The runs went on behind the ramp.
  EXPECT_THAT(reasons(ramp, other, 41, 60, {.iteration = 40, .samples = 240}), ElementsAre(seed));
  other.seed = ramp.seed;
  EXPECT_THAT(reasons(ramp, other, 1, 20), ElementsAre(rampup));

  SampleOrder growing = ramp, later = ramp;
  growing.curriculum = {
      .schedule_type = "fixed_linear", .min_difficulty = 8, .total_step = 10, .difficulty_step = 8};
  later.curriculum = growing.curriculum;
  later.curriculum.total_step = 12;
  later.seed = 5;
  EXPECT_THAT(reasons(growing, later, 1, 20),
              ElementsAre(seed, "--curriculum-total-step: 10 and 12"));
  EXPECT_THAT(reasons(growing, later, 15, 20), ElementsAre(seed));
}

// Where nothing is different, what did not matter so far is told.
TEST(RunDifference, TellsWhatHadNoEffect) {
  SampleOrder other = ramping();
  other.rampup_batch_size.clear();
  EXPECT_THAT(reasons(ramping(), other, 41, 60, {.iteration = 40, .samples = 240}),
              ElementsAre("--rampup-batch-size: 4 4 200 and none"));
}

}  // namespace
}  // namespace weft
