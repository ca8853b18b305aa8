// Jumps of a loss, and the samples that carry them.
#include "preprocess/inspect/losses/spikes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "preprocess/inspect/losses/run_losses.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Usual, IsTheMedianAndItsRobustDeviation) {
  const Usual usual = usual_of({1, 2, 3, 4, 100, NAN, INFINITY});
  EXPECT_EQ(usual.median, 3);
  EXPECT_DOUBLE_EQ(usual.deviation, 1.4826);
  EXPECT_DOUBLE_EQ(usual.z_of(3 + 2 * 1.4826), 2);
  EXPECT_EQ(usual.z_of(NAN), INFINITY);
  EXPECT_EQ(usual_of({1, 2, 3, 4}).median, 2.5);
  EXPECT_THROW(usual_of({NAN}), std::invalid_argument);
}

TEST(Usual, OfEqualNumbersTakesNoRoundingForAJump) {
  const Usual usual = usual_of(std::vector<double>(20, 3.0));
  EXPECT_LT(usual.z_of(3.001), 1);
  EXPECT_GT(usual.z_of(3.1), 10);
}

TEST(Usual, OfALossThatFallsIsWhereItIsNow) {
  std::vector<double> falling;
  for (int i = 0; i < 100; ++i) falling.push_back(10 - 0.05 * i);
  const Usual usual = usual_after(falling);
  EXPECT_NEAR(usual.median, falling.back(), 0.3);
  EXPECT_LT(usual.deviation, 0.06);
}

// A run whose loss falls with noise, in batches of 8; each sample's loss is noisier.
class Spikes : public testing::Test {
 protected:
  Spikes() {
    for (int64_t i = 1; i <= 120; ++i) {
      std::vector<float> losses;
      for (int s = 0; s < 8; ++s)
        losses.push_back(static_cast<float>(2 + 6 * std::exp(-0.05 * static_cast<double>(i)) +
                                            0.2 * noise_(random_)));
      samples_.push_back(losses);
    }
  }
  // Sets the iteration's loss to the mean of its samples, and writes both files.
  void write() {
    std::filesystem::remove(folder_ / kSampleLossesName);
    SampleLossWriter writer(folder_ / kSampleLossesName, 0);
    steps_.clear();
    for (const std::vector<float>& losses : samples_) {
      const auto iteration = static_cast<int64_t>(steps_.size()) + 1;
      double sum = 0;
      for (const float loss : losses) sum += static_cast<double>(loss);
      steps_.push_back({.iteration = iteration,
                        .consumed_samples = 8 * iteration,
                        .global_batch_size = 8,
                        .lm_loss = sum / 8,
                        .grad_norm = std::exp(0.1 * noise_(random_))});
      writer.add(iteration, 8 * (iteration - 1), losses);
    }
  }
  std::vector<int64_t> found() const {
    std::vector<int64_t> iterations;
    for (const Spike& spike : find_spikes(steps_, {})) iterations.push_back(spike.step.iteration);
    return iterations;
  }
  JudgedBatch judge(int64_t iteration) const {
    return judge_samples(steps_, static_cast<size_t>(iteration - 1), SpikeOptions{},
                         SampleLossReader(folder_ / kSampleLossesName));
  }

  TemporaryFolder folder_;
  std::mt19937 random_{5};
  std::normal_distribution<double> noise_;
  std::vector<std::vector<float>> samples_;
  std::vector<LoggedStep> steps_;
};

TEST_F(Spikes, AreNoneWhereTheLossFallsWithNoise) {
  write();
  EXPECT_THAT(found(), testing::IsEmpty());
}

TEST_F(Spikes, AreFoundWithTheLargestFirst) {
  samples_[59][3] = 9;
  samples_[99][5] = 15;
  samples_[99][6] = 7;
  write();
  EXPECT_THAT(found(), ElementsAre(100, 60));
  steps_[79].grad_norm = 30;
  steps_[29].lm_loss = NAN;
  EXPECT_THAT(found(), ElementsAre(30, 80, 100, 60));
}

TEST_F(Spikes, NameTheSamplesThatCarryThem) {
  samples_[99][5] = 15;
  samples_[99][6] = 7;
  write();
  const JudgedBatch batch = judge(100);
  ASSERT_EQ(batch.samples.size(), 8U);
  EXPECT_EQ(batch.samples[0].sample, 99 * 8 + 5);
  EXPECT_EQ(batch.samples[1].sample, 99 * 8 + 6);
  EXPECT_GT(batch.samples[1].z, kStandsOut);
  EXPECT_LT(batch.samples[2].z, kStandsOut);
  double shares = 0;
  for (const JudgedSample& sample : batch.samples) shares += sample.share.value();
  EXPECT_NEAR(shares, 1, 1e-6);
  EXPECT_NEAR(*batch.samples[0].share, 13.0 / 18, 0.1);
  // Where the gradient norm alone jumps there is no jump of the loss to have a share of.
  steps_[79].grad_norm = 30;
  for (const JudgedSample& sample : judge(80).samples) EXPECT_EQ(sample.share, std::nullopt);
}

TEST_F(Spikes, ASampleWhoseLossIsNoNumberIsTheWorst) {
  samples_[99][2] = NAN;
  samples_[99][5] = 15;
  write();
  EXPECT_EQ(judge(100).samples.front().sample, 99 * 8 + 2);
  EXPECT_EQ(judge(100).samples.front().z, INFINITY);
}

TEST_F(Spikes, OfAThirdOfABatchAtOnceAreOfTheWeights) {
  for (const size_t i : {1, 6}) samples_[99][i] += 5;
  write();
  EXPECT_EQ(judge(100).num_standing_out(), 2);
  EXPECT_FALSE(judge(100).is_unstable());
  samples_[99][4] = NAN;
  write();
  EXPECT_EQ(judge(100).num_standing_out(), 3);
  EXPECT_TRUE(judge(100).is_unstable());
}

// A sample is found whose iteration does not jump.
TEST_F(Spikes, OfSingleSamplesAreCandidatesForALook) {
  samples_[57][3] += 1.8F;
  write();
  EXPECT_THAT(found(), testing::IsEmpty());
  EXPECT_GE(judge(58).samples.front().z, SpikeOptions{}.threshold);
  const SampleLossReader losses(folder_ / kSampleLossesName);
  EXPECT_THAT(find_candidates(steps_, 0, steps_.size(), 6, losses), testing::Contains(57U));
  EXPECT_THAT(find_candidates(steps_, 55, 60, 6, losses), testing::Contains(57U));
  EXPECT_THAT(find_candidates(steps_, 0, 57, 12, losses), testing::IsEmpty());
}

TEST_F(Spikes, WhoseLossesWereNotKeptOrAreOfAnotherIterationAreNotJudged) {
  write();
  steps_.push_back({.iteration = 121, .consumed_samples = 968, .global_batch_size = 8});
  EXPECT_THROW(judge(121), LossesNotKept);
  steps_.back().consumed_samples = 960;
  try {
    judge(121);
    ADD_FAILURE();
  } catch (const LossesNotKept&) {
    ADD_FAILURE() << "they are kept, of iteration 120";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the two files are not of one run"));
  }
}

TEST(LoggedSteps, LeaveOutEvaluationsAndALineThatIsBeingWritten) {
  const TemporaryFolder folder;
  const std::string step =
      R"({"iteration":1,"consumed_samples":8,"global_batch_size":8,"lm_loss":2.5,"grad_norm":null})";
  write_file_atomically(folder / "metrics.jsonl",
                        step + "\n{\"iteration\":1,\"validation_loss\":2}\n" + step.substr(0, 30));
  const std::vector<LoggedStep> steps = read_logged_steps(folder.path());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].lm_loss, 2.5);
  EXPECT_TRUE(std::isnan(steps[0].grad_norm));
  write_file_atomically(folder / "metrics.jsonl", step + "\n" + step + "\n");
  EXPECT_THROW(read_logged_steps(folder.path()), std::runtime_error);
  write_file_atomically(folder / "metrics.jsonl", "[" + step + "\n");
  EXPECT_THROW(read_logged_steps(folder.path()), std::runtime_error);
  EXPECT_THROW(read_logged_steps(folder / "absent"), std::system_error);
}

// A search reads a few lines; it finds what reading all of them finds, between evaluations, notes
// and a line that is being written.
TEST(LoggedSteps, AreFoundByTheirIteration) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_logged_step(folder.path(), 5), std::nullopt);
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    int64_t iteration = static_cast<int64_t>(random() % 3), consumed = 0;
    const uint64_t num_lines = random() % 12;
    for (uint64_t i = 0; i < num_lines; ++i) {
      const std::string told = "{\"iteration\":" + std::to_string(iteration);
      switch (random() % 4) {
        case 0:
          text += told + ",\"validation_loss\":2}\n";
          break;
        case 1:
          text += "{\"note\":\"" + std::string(random() % 300, 'x') + "\"}\n";
          break;
        default:
          iteration += 1 + static_cast<int64_t>(random() % 3);
          text += "{\"iteration\":" + std::to_string(iteration) +
                  ",\"consumed_samples\":" + std::to_string(consumed += 8) +
                  ",\"global_batch_size\":8,\"lm_loss\":1,\"grad_norm\":1}\n";
      }
    }
    if (random() % 2 == 0) text += "{\"iteration\":" + std::to_string(iteration + 1);
    write_file_atomically(folder / "metrics.jsonl", text);
    const std::vector<LoggedStep> steps = read_logged_steps(folder.path());
    for (int64_t limit = -1; limit < iteration + 3; ++limit) {
      std::optional<int64_t> expected, found;
      for (const LoggedStep& step : steps) {
        if (step.iteration <= limit) expected = step.iteration;
      }
      if (const auto step = find_logged_step(folder.path(), limit)) {
        found = step->iteration;
        EXPECT_EQ(step->consumed_samples % 8, 0);
      }
      ASSERT_EQ(found, expected) << "round " << round << ", until " << limit << "\n" << text;
    }
  }
  // Evaluations are not checked for their order.
  write_file_atomically(
      folder / "metrics.jsonl",
      R"({"iteration":5,"consumed_samples":8,"global_batch_size":8,"lm_loss":1,"grad_norm":1})"
      "\n{\"iteration\":1,\"validation_loss\":2}\n");
  EXPECT_EQ(find_logged_step(folder.path(), 4), std::nullopt);
  write_file_atomically(folder / "metrics.jsonl", "no JSON\n[1]\n");
  EXPECT_THROW(find_logged_step(folder.path(), INT64_MAX), std::runtime_error);
}

// Other members may be anything; those of a step are numbers, whatever stands beside them.
TEST(LoggedSteps, RefuseLinesThatAreNone) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& line) {
    write_file_atomically(folder / "metrics.jsonl", line + "\n");
    return read_logged_steps(folder.path());
  };
  const std::string rest =
      R"(,"consumed_samples":16,"global_batch_size":8,"lm_loss":-2e-1,"grad_norm":3)";
  const auto steps = read(R"({"note":[{"lm_loss":"x","iteration":[]}],"iteration":2)" + rest +
                          R"(,"ok":true,"by":"me"})");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].iteration, 2);
  EXPECT_EQ(steps[0].consumed_samples, 16);
  EXPECT_EQ(steps[0].global_batch_size, 8);
  EXPECT_EQ(steps[0].lm_loss, -0.2);
  EXPECT_EQ(steps[0].grad_norm, 3);
  for (const std::string iteration :
       {"\"2\"", "2.5", "[2]", "{}", "true", "null", "18446744073709551615", "2,"})
    EXPECT_THROW(read("{\"iteration\":" + iteration + rest + "}"), std::runtime_error) << iteration;
  EXPECT_THROW(read("{\"step\":2" + rest + "}"), std::runtime_error);
  for (const char* line : {"[]", "5", "\"text\"", "null", ""})
    EXPECT_THROW(read(line), std::runtime_error) << line;
}

}  // namespace
}  // namespace weft
