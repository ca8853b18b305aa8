// A run keeps the loss of every sample in RUN_DIR/sample_losses.bin.
#include "indexed_dataset/run_record/sample_losses.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

class SampleLossesOfARun : public Training {
 protected:
  std::filesystem::path path(const std::string& run) const {
    return folder_ / (run + "/" + kSampleLossesName);
  }
  // Expects that the samples of each iteration in metrics.jsonl have losses, whose mean is the
  // iteration's, and that the file has no others.
  void expect_means_of_metrics(const std::string& run) const {
    const SampleLossReader losses(path(run));
    int64_t end = 0;
    for (const nlohmann::json& line : metrics(run)) {
      if (!line.contains("lm_loss")) continue;
      end = line.at("consumed_samples");
      double sum = 0;
      const auto size = line.at("global_batch_size").get<int64_t>();
      for (const auto& sample : losses.read(end - size, end)) {
        ASSERT_TRUE(sample) << line;
        EXPECT_EQ(sample->iteration, line.at("iteration"));
        sum += static_cast<double>(sample->loss);
      }
      EXPECT_NEAR(sum / static_cast<double>(size), line.at("lm_loss").get<double>(), 1e-5) << line;
    }
    EXPECT_GT(end, 0);
    EXPECT_EQ(losses.end_sample(), end);
  }
};

TEST_F(SampleLossesOfARun, HaveTheLossOfEachIterationAsTheirMean) {
  ASSERT_EQ(run(arguments("run", 12)), 0) << output();
  expect_means_of_metrics("run");
  ASSERT_EQ(run(arguments("alone", 12, {"--micro-batch-size", "8"})), 0) << output();
  expect_means_of_metrics("alone");
}

TEST_F(SampleLossesOfARun, FollowBatchesThatGrowAndRunsThatGoOnWithOthers) {
  const Arguments grow = {"--train-samples", "96", "--rampup-batch-size", "4", "2", "24"};
  Arguments first = arguments("run", 0, grow), second = arguments("run");
  const auto without_iterations = [](Arguments& all) {
    const auto at = std::find(all.begin(), all.end(), "--train-iters");
    all.erase(at, at + 2);
    const auto warmup = std::find(all.begin(), all.end(), "--lr-warmup-iters");
    *warmup = "--lr-warmup-samples";
  };
  without_iterations(first);
  without_iterations(second);
  first.insert(first.end(), {"--exit-interval", "8"});
  ASSERT_EQ(run(first), 0) << output();
  expect_means_of_metrics("run");
  second.insert(second.end(),
                {"--train-samples", "96", "--global-batch-size", "6", "--override-lr-scheduler"});
  ASSERT_EQ(run(second), 0) << output();
  expect_means_of_metrics("run");
}

// A micro-batch of one sample: the mean over its unmasked tokens is its part of the loss.
TEST_F(SampleLossesOfARun, AreMeansOverTheTokensThatAreNotMasked) {
  const Arguments masked = {"--eod-mask-loss", "--micro-batch-size", "1"};
  ASSERT_EQ(run(arguments("run", 12, masked)), 0) << output();
  expect_means_of_metrics("run");
}

TEST_F(SampleLossesOfARun, ChangeNoNumberOfTheRunAndAreNotKeptWhenTurnedOff) {
  ASSERT_EQ(run(arguments("kept", 12)), 0) << output();
  ASSERT_EQ(run(arguments("off", 12, {"--no-sample-losses"})), 0) << output();
  EXPECT_FALSE(std::filesystem::exists(path("off")));
  auto kept = trajectory("kept"), off = trajectory("off");
  kept.pop_back();
  off.pop_back();
  EXPECT_EQ(kept, off);
}

// The losses behind the checkpoint were of another past, so they go; those of steps that keep none
// are a gap.
TEST_F(SampleLossesOfARun, OfStepsThatKeptNoneAreAGap) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "10"})), 0) << output();
  std::ofstream(folder_ / "run/latest_checkpointed_iteration.txt") << "5";
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "10", "--no-sample-losses"})), 0)
      << output();
  EXPECT_EQ(SampleLossReader(path("run")).end_sample(), 40);
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "15"})), 0) << output();
  const SampleLossReader losses(path("run"));
  EXPECT_EQ(losses.end_sample(), 120);
  const auto samples = losses.read(39, 81);
  EXPECT_EQ(samples.front()->iteration, 5);
  for (size_t i = 1; i <= 40; ++i) EXPECT_FALSE(samples[i]) << i;
  EXPECT_EQ(samples.back()->iteration, 11);
}

}  // namespace
}  // namespace weft
