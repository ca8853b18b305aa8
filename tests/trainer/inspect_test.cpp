// weft-data inspect samples --run tells what each iteration of a run took, also after the run was
// resumed with other arguments.
#include <gmock/gmock.h>

#include <fstream>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

class InspectRun : public Training {
 protected:
  // Returns the exit code; output() is what weft-data prints.
  int inspect(const Arguments& more) {
    Arguments command{std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-data", "inspect", "samples",
                      "--format", "jsonl"};
    command.insert(command.end(), more.begin(), more.end());
    return wait(start_program(command));
  }
  int inspect_run(const std::string& run, const Arguments& more) {
    Arguments all = more;
    all.insert(all.end(), {"--run", (folder_ / run).string()});
    return inspect(all);
  }
  // Returns the samples that were printed; the lines of messages are left out.
  std::vector<nlohmann::json> samples() const {
    std::istringstream in(output());
    std::vector<nlohmann::json> samples;
    for (std::string line; std::getline(in, line);) {
      nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_discarded()) samples.push_back(std::move(json));
    }
    return samples;
  }
  // Expects that inspect shows, for each iteration of metrics.jsonl, the samples between the
  // consumed ones before it and after it.
  void expect_samples_of_metrics(const std::string& run) {
    int64_t consumed = 0;
    for (const nlohmann::json& line : metrics(run)) {
      if (!line.contains("lm_loss")) continue;
      const std::string iteration = line.at("iteration").dump();
      ASSERT_EQ(inspect_run(run, {"--iteration", iteration}), 0) << output();
      const auto shown = samples();
      ASSERT_EQ(std::ssize(shown), line.at("global_batch_size")) << iteration << output();
      for (const nlohmann::json& sample : shown) EXPECT_EQ(sample.at("sample"), consumed++);
      EXPECT_EQ(line.at("consumed_samples"), consumed) << iteration;
    }
  }
};

TEST_F(InspectRun, AgreesWithTheMetricsOfARunThatWasResumedWithAnotherBatchSize) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  Arguments resumed = arguments("run", 12, {"--global-batch-size", "4", "--override-lr-scheduler"});
  ASSERT_EQ(run(resumed), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("--global-batch-size was 8 when the checkpoint was saved and is 4"));
  expect_samples_of_metrics("run");
  EXPECT_EQ(inspect_run("run", {"--sample-range", "36", "44"}), 0) << output();
  ASSERT_EQ(samples().size(), 8U);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(samples()[static_cast<size_t>(i)].at("sample"), 36 + i);
}

TEST_F(InspectRun, ShowsEachPartOfARunInItsOwnOrder) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 30, {"--seed", "99", "--exit-interval", "10"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 30, {"--seed", "5", "--exit-interval", "15"})), 0) << output();
  // Rolled back: what came after iteration 10 is no part of the run any more.
  std::ofstream(folder_ / "run/latest_checkpointed_iteration.txt") << "10";
  ASSERT_EQ(run(arguments("run", 30, {"--seed", "7", "--exit-interval", "15"})), 0) << output();
  expect_samples_of_metrics("run");
  const auto ids_of = [this](int64_t iteration, const std::string& seed) {
    const std::string first = std::to_string(8 * (iteration - 1)),
                      last = std::to_string(8 * iteration);
    EXPECT_EQ(
        inspect({"--data-path", prefix_, "--split", "90,5,5", "--seq-length", "16", "--train-iters",
                 "30", "--global-batch-size", "8", "--seed", seed, "--sample-range", first, last}),
        0)
        << output();
    return samples();
  };
  for (const auto& [iteration, seed] :
       {std::pair{3, "1234"}, {5, "1234"}, {6, "99"}, {10, "99"}, {11, "7"}, {20, "7"}}) {
    const auto expected = ids_of(iteration, seed);
    ASSERT_EQ(inspect_run("run", {"--iteration", std::to_string(iteration)}), 0) << output();
    EXPECT_EQ(samples(), expected) << iteration;
  }
  std::vector<nlohmann::json> expected = ids_of(5, "1234");
  for (auto& sample : ids_of(6, "99")) expected.push_back(sample);
  ASSERT_EQ(inspect_run("run", {"--sample-range", "32", "48"}), 0) << output();
  EXPECT_EQ(samples(), expected);

  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--sample-range", "0", "1"}),
            static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("does not tell which evaluation took samples 0 to 1 of valid"));
}

TEST_F(InspectRun, RefusesWhatTheFolderDoesNotTell) {
  ASSERT_EQ(run(arguments("first", 30, {"--exit-interval", "5"})), 0) << output();
  Arguments second = arguments("second", 30, {"--exit-interval", "10"});
  for (size_t i = 0; i + 1 < second.size(); ++i) {
    if (second[i] == "--load") second[i + 1] = (folder_ / "first").string();
  }
  ASSERT_EQ(run(second), 0) << output();
  EXPECT_EQ(inspect_run("second", {"--iteration", "6"}), 0) << output();
  EXPECT_EQ(samples().at(0).at("sample"), 40);
  EXPECT_EQ(inspect_run("second", {"--iteration", "5"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of iterations from 6 on"));
  EXPECT_EQ(inspect_run("second", {"--sample-range", "39", "41"}),
            static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of samples from 40 on"));
}

TEST_F(InspectRun, RefusesOrdersAndBlendsThatItDoesNotKnow) {
  ASSERT_EQ(run(arguments("legacy", 6, {"--sample-order", "legacy"})), 0) << output();
  EXPECT_EQ(inspect_run("legacy", {"--iteration", "3"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("the run's --sample-order is legacy"));
  write_tiny_dataset(folder_ / "other", 200);
  Arguments blend = arguments("blend", 6);
  const auto path = std::find(blend.begin(), blend.end(), prefix_);
  *path = "0.3";
  blend.insert(path + 1, {prefix_, "0.7", (folder_ / "other").string()});
  ASSERT_EQ(run(blend), 0) << output();
  EXPECT_EQ(inspect_run("blend", {"--iteration", "3"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("the run's data is a blend"));
}

TEST_F(InspectRun, RefusesADatasetThatWasReplaced) {
  ASSERT_EQ(run(arguments("run", 6)), 0) << output();
  for (const char* suffix : {".bin", ".idx"}) std::filesystem::remove(prefix_ + suffix);
  write_tiny_dataset(prefix_, 301);
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("was replaced or changed: the run read 300 documents"));
}

}  // namespace
}  // namespace weft
