// These tests select samples of a run whose segments differ.
#include "preprocess/inspect/commands/sample_selection.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

namespace weft {
namespace {

class ValidationsInARange : public ::testing::Test {
 protected:
  // The first segment evaluates after every 10 iterations; the second begins after iteration 30.
  explicit ValidationsInARange() : segments_(2) {
    for (RunSegment& segment : segments_) {
      segment.order.global_batch_size = 4;
      segment.order.train_iters = 100;  // the evaluation at the end is not in the ranges
      segment.order.eval_iters = 1;
      segment.order.eval_interval = 10;
      segment.order.blends.blends.fill(
          {Blend{.name = "", .prefixes = {"a"}, .weights = {}, .shares = {}}});
    }
    segments_[1].resumed = {.iteration = 30, .samples = 120};
  }
  std::vector<int64_t> iterations(const std::string& begin, const std::string& end) const {
    CLI::App app;
    OptionSet options(app);
    SampleSelection selection;
    selection.declare(options);
    app.parse(std::vector<std::string>{end, begin, "--iterations", "valid", "--split-name"});
    std::vector<int64_t> found;
    const RunTimeline run(segments_);
    for (const Stretch& stretch : selection.select(run)) found.push_back(stretch.iteration);
    return found;
  }

  std::vector<RunSegment> segments_;
};

TEST_F(ValidationsInARange, FollowTheIntervalOfTheirOwnSegment) {
  segments_[1].order.eval_interval = 15;
  EXPECT_THAT(iterations("1", "60"), ::testing::ElementsAre(10, 20, 30, 45, 60));
  segments_[1].order.eval_interval = 7;
  EXPECT_THAT(iterations("25", "50"), ::testing::ElementsAre(30, 35, 42, 49));
}

// Such a segment needs no interval.
TEST_F(ValidationsInARange, AreNoneWhereNothingIsEvaluated) {
  segments_[1].order.eval_iters = segments_[1].order.eval_interval = 0;
  EXPECT_THAT(iterations("1", "60"), ::testing::ElementsAre(10, 20, 30));
  segments_[0].order.eval_iters = segments_[0].order.eval_interval = 0;
  EXPECT_THROW(iterations("1", "60"), std::invalid_argument);
}

}  // namespace
}  // namespace weft
