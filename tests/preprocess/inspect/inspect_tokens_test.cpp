// weft-data inspect samples --run shows the tokens that training and evaluation really took, for
// every way to name datasets and every order.
#include "tests/preprocess/inspect/inspect_tokens.h"

#include <gmock/gmock.h>

#include <set>

#include "indexed_dataset/run_record/read_segments.h"

namespace weft {
namespace {

constexpr int64_t kLength = 16;

TEST_F(InspectTokens, OfEveryOrderAreThoseThatWereTrained) {
  for (const auto& [name, kind] : kOrderKinds) {
    SCOPED_TRACE(name);
    Arguments data = weighted_;
    data.insert(data.end(), {"--sample-order", name});
    train_in_two_segments(data);
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectTokens, OfEveryFormOfABlendAreThoseThatWereTrained) {
  const std::string list = (folder_ / "list").string(), lists = (folder_ / "lists.json").string();
  write_file_atomically(list, "1 " + prefix_ + "\n3 " + other_ + "\n");
  write_file_atomically(lists, nlohmann::json{{"train", {"0.5", prefix_, "0.5", other_}},
                                              {"valid", {other_}},
                                              {"test", {prefix_}}}
                                   .dump());
  for (const Arguments& data :
       {Arguments{"--data-path", prefix_, other_, "--split", "90,5,5"},
        Arguments{"--data-args-path", list, "--split", "90,5,5"},
        Arguments{"--per-split-data-args-path", lists},
        Arguments{"--train-data-path", "2", prefix_, "1", other_, "--valid-data-path", other_}}) {
    SCOPED_TRACE(data.front());
    train_in_two_segments(data);
    // The files change after the run; inspect must not read them.
    if (data.front() == "--data-args-path") {
      write_file_atomically(list, "3 " + prefix_ + "\n1 " + other_ + "\n");
      expect_shown_is_trained();
    }
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectTokens, OfCachedIndexesAreThoseThatWereTrained) {
  Arguments data = weighted_;
  data.insert(data.end(), {"--data-cache-path", (folder_ / "cache").string()});
  train_in_two_segments(data);
}

// The names of caches tell the prefixes as the run was given them.
TEST_F(InspectTokens, OfRelativePrefixesAreFoundInTheirCachesFromAnywhere) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  Arguments data = weighted_;
  data[2] = std::filesystem::relative(prefix_).string();
  data[4] = "./" + std::filesystem::relative(other_).string();
  data.insert(data.end(), {"--data-cache-path", "cache"});
  train_in_two_segments(data);
  std::filesystem::current_path("/");
  expect_shown_is_trained();
  const RunTimeline run = read_run(folder_ / "run");
  for (const RunSegment& segment : run.segments()) {
    const SampleOrder& order = segment.order;
    EXPECT_EQ(order.cache_path, (folder_ / "cache").string());
    const TrainingDatasets datasets = build_training_datasets(order, *order.asked_samples);
    ASSERT_GT(datasets.reports.size(), 6U);
    for (const IndexReport& report : datasets.reports)
      EXPECT_TRUE(report.was_cached) << split_name(report.split) << " " << report.name;
  }
  std::filesystem::current_path(before);
}

TEST_F(InspectTokens, OfBatchesWhoseSizeStepsAreThoseThatWereTrained) {
  Arguments data = weighted_;
  data.insert(data.end(), {"--step-batch-size-schedule", "0:2 160:4,0.4K:8 1040:4"});
  passes.clear();
  Arguments all = run_of(data, "96", {"--exit-interval", "9"});
  const auto at = std::find(all.begin(), all.end(), "--global-batch-size");
  all.erase(at, at + 2);
  for (int segment = 0; segment < 3; ++segment) train(all);
  std::vector<int64_t> sizes;
  for (const nlohmann::json& line : metrics("run")) {
    if (line.contains("lm_loss")) sizes.push_back(line.at("global_batch_size"));
  }
  // 10 samples of 16 tokens are 160 tokens; 25 and 65 begin the next sizes.
  EXPECT_THAT(sizes,
              testing::ElementsAre(2, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4));
  expect_shown_is_trained();
}

TEST_F(InspectTokens, OfTheCyclicSamplerAreThoseThatWereTrained) {
  // One epoch of both has fewer samples than the run takes.
  const std::string small = write_tiny_dataset(folder_ / "small", 6);
  for (const Arguments& sharding : {Arguments{}, Arguments{"--no-data-sharding"}}) {
    Arguments data = {"--train-data-path",
                      small,
                      write_tiny_dataset(folder_ / "tinier", 3),
                      "--valid-data-path",
                      other_,
                      "--dataloader-type",
                      "cyclic"};
    data.insert(data.end(), sharding.begin(), sharding.end());
    train_in_two_segments(data);
    const auto trained = samples_of_passes(/*trains=*/true);
    EXPECT_LT(std::set(trained.begin(), trained.end()).size(), trained.size());
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectTokens, OfEvaluationsAreThoseThatWereEvaluatedAlsoAfterAResumption) {
  passes.clear();
  train(run_of(weighted_, "96", {"--eval-interval", "3", "--exit-interval", "7"}));
  train(run_of(weighted_, "96", {"--eval-interval", "2", "--eval-iters", "2"}));
  std::vector<std::vector<int32_t>> shown;
  // Behind iteration 12 come the evaluation of its own and the one when training is done, and then
  // the test.
  for (const std::string iteration : {"3", "6", "8", "10", "12"})
    append_shown({"--split-name", "valid", "--iteration", iteration}, shown);
  EXPECT_EQ(samples().back().value("at_end", false), true);
  auto evaluated = samples_of_passes(/*trains=*/false);
  ASSERT_GT(evaluated.size(), shown.size());
  evaluated.resize(shown.size());
  EXPECT_EQ(shown, evaluated);
}

TEST_F(InspectTokens,
       OfEvaluationsThatAskForFewerSamplesAfterAResumptionAreThoseThatWereEvaluated) {
  passes.clear();
  train(run_of(weighted_, "96",
               {"--eval-interval", "3", "--eval-iters", "4", "--exit-interval", "7"}));
  train(run_of(weighted_, "96", {"--eval-interval", "3"}));
  std::vector<std::vector<int32_t>> shown;
  for (const std::string iteration : {"3", "6", "9", "12"})
    append_shown({"--split-name", "valid", "--iteration", iteration}, shown);
  auto evaluated = samples_of_passes(/*trains=*/false);
  ASSERT_GT(evaluated.size(), shown.size());
  evaluated.resize(shown.size());
  EXPECT_EQ(shown, evaluated);
}

TEST_F(InspectTokens, OfABlendThatChangesAreThoseThatWereTrained) {
  const std::string third = write_tiny_dataset(folder_ / "third", 40);
  const std::string path = (folder_ / "schedule").string();
  write_file_atomically(
      path, nlohmann::json{{{"from_samples", 50}, {"blend", {0.6, prefix_, 0.4, third}}},
                           {{"from_tokens", 80 * kLength}, {"blend", {1, other_, 3, third}}}}
                .dump());
  Arguments scheduled = weighted_;
  scheduled.insert(scheduled.end(), {"--blend-schedule", path});
  train_in_two_segments(scheduled, scheduled);
  const auto whole = samples_of_passes(/*trains=*/true);
  std::filesystem::remove_all(folder_ / "run");
  // The schedule comes when 48 samples are consumed.
  train_in_two_segments(weighted_, scheduled);
  EXPECT_EQ(samples_of_passes(/*trains=*/true), whole);
  // All datasets of the schedule are known by their bytes.
  for (const char* suffix : {".bin", ".idx"}) std::filesystem::remove(third + suffix);
  write_tiny_dataset(third, 41);
  EXPECT_EQ(inspect_run("run", {"--iteration", "2"}), 0) << output();
  EXPECT_EQ(inspect_run("run", {"--iteration", "12"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), testing::HasSubstr("the dataset " + third + " was replaced"));
}

TEST_F(InspectTokens, OfEveryGroupAreThoseThatWereEvaluated) {
  const std::string of_training = (folder_ / "groups").string();
  write_file_atomically(of_training, "\"T: 1 0:0.8 " + prefix_ + ", 2 0:0.8 " + other_ + "\"\n");
  const Arguments groups = {"--train-weighted-split-paths-path",
                            of_training,
                            "--valid-weighted-split-paths",
                            "ONE: 1 0.8:0.9 " + prefix_ + ", 3 0.8:0.9 " + other_,
                            "TWO: 1 0.8:0.9 " + other_,
                            "--test-weighted-split-paths",
                            "LAST: 1 0.9:1 " + prefix_,
                            "--sample-order",
                            "bigscience"};
  passes.clear();
  train(run_of(groups, "160", {"--eval-interval", "8"}));
  std::filesystem::remove(of_training);  // inspect must not read it
  expect_shown_is_trained();
  std::vector<std::vector<int32_t>> shown;
  // After iterations 8 and 16, and at the end.
  for (const std::string first : {"0", "8", "16"}) {
    const std::string last = std::to_string(std::stoi(first) + 8);
    for (const std::string group : {"ONE", "TWO"}) {
      append_shown({"--split-name", "valid", "--group", group, "--sample-range", first, last},
                   shown);
    }
  }
  append_shown({"--split-name", "test", "--sample-range", "0", "8"}, shown);
  EXPECT_EQ(shown, samples_of_passes(/*trains=*/false));
  std::vector<std::vector<int32_t>> by_iteration;
  for (const std::string iteration : {"8", "16", "20"}) {
    for (const std::string group : {"ONE", "TWO"}) {
      append_shown({"--split-name", "valid", "--group", group, "--iteration", iteration},
                   by_iteration);
    }
  }
  shown.resize(by_iteration.size());
  EXPECT_EQ(by_iteration, shown);
  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--group", "ONE", "--iteration", "9"}),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), testing::HasSubstr("no evaluation follows it"));

  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--sample-range", "0", "1"}),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), testing::HasSubstr("several groups; give one with --group: ONE, TWO"));
  EXPECT_EQ(
      inspect_run("run", {"--split-name", "valid", "--group", "X", "--sample-range", "0", "1"}),
      static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), testing::HasSubstr("no group of this name: ONE, TWO"));
}

TEST_F(InspectTokens, OfAWholeEvaluationEndWhereTheGroupDoes) {
  passes.clear();
  train(run_of({"--train-weighted-split-paths", "T: 1 0:0.8 " + prefix_,
                "--valid-weighted-split-paths", "LARGE: 1 0.8:1 " + prefix_,
                "SMALL: 1 0.8:1 " + other_, "--sample-order", "bigscience", "--full-validation"},
               "64", {"--eval-interval", "8"}));
  std::vector<std::vector<int32_t>> evaluated = samples_of_passes(/*trains=*/false);
  // Rows of the last batch that no sample fills are zeros, which the dataset has in no row.
  std::erase(evaluated, std::vector<int32_t>(kLength, 0));
  std::vector<std::vector<int32_t>> large, small;
  append_shown({"--split-name", "valid", "--group", "LARGE", "--iteration", "8"}, large);
  append_shown({"--split-name", "valid", "--group", "SMALL", "--iteration", "8"}, small);
  EXPECT_GT(large.size(), small.size());
  EXPECT_EQ(evaluated.size(), large.size() + small.size());
  // The evaluation when training is done shows the same once more, in turn with the other group.
  for (auto* of_group : {&large, &small}) {
    const auto middle = of_group->begin() + std::ssize(*of_group) / 2;
    EXPECT_EQ(std::vector(of_group->begin(), middle), std::vector(middle, of_group->end()));
    of_group->erase(middle, of_group->end());
  }
  const auto end_of_large = evaluated.begin() + std::ssize(large);
  EXPECT_EQ(std::vector(evaluated.begin(), end_of_large), large);
  EXPECT_EQ(std::vector(end_of_large, end_of_large + std::ssize(small)), small);
  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--group", "SMALL", "--sample-range", "0",
                                std::to_string(small.size() + 1)}),
            static_cast<int>(ExitCode::kUsage));
}

}  // namespace
}  // namespace weft
