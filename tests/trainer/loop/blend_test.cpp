// Training on several datasets: the blend's samples, over restarts, and what checkpoints say of
// them.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class BlendRun : public Training {
 protected:
  // Arguments with these words in the place of --data-path PREFIX --split 90,5,5.
  Arguments blend(const std::string& run, int64_t num_iterations, const Arguments& data,
                  const Arguments& more = {}) const {
    Arguments all = arguments(run, num_iterations, more);
    const auto at = std::find(all.begin(), all.end(), "--data-path");
    all.erase(at, at + 4);
    all.insert(all.end(), data.begin(), data.end());
    return all;
  }
  nlohmann::json manifest_of(const std::string& run) const {
    return nlohmann::json::parse(read_file(folder_ / (run + "/run_manifest.json")));
  }
  std::string other_ = write_tiny_dataset(folder_ / "other", 80);
  const Arguments weighted_ = {"--data-path", "0.25", prefix_, "0.75", other_, "--split", "90,5,5"};
};

TEST_F(BlendRun, GoesOnAfterARestartAsIfNothingHadHappened) {
  ASSERT_EQ(run(blend("whole", 20, weighted_)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("2 datasets: 380 documents"));
  ASSERT_EQ(run(blend("parts", 20, weighted_, {"--exit-interval", "7"})), 0) << output();
  ASSERT_EQ(run(blend("parts", 20, weighted_)), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
  // Both datasets alone give other losses.
  ASSERT_EQ(run(arguments("alone", 20)), 0) << output();
  EXPECT_NE(trajectory("alone"), trajectory("whole"));
}

TEST_F(BlendRun, CachesChangeNothing) {
  const std::string cache = (folder_ / "cache").string();
  ASSERT_EQ(run(blend("memory", 10, weighted_)), 0) << output();
  ASSERT_EQ(run(blend("written", 10, weighted_, {"--data-cache-path", cache})), 0) << output();
  ASSERT_EQ(run(blend("mapped", 10, weighted_, {"--data-cache-path", cache})), 0) << output();
  EXPECT_EQ(trajectory("written"), trajectory("memory"));
  EXPECT_EQ(trajectory("mapped"), trajectory("memory"));

  // weft-data index finds all of it.
  const Arguments index = words(
      std::string(std::getenv("WEFT_BIN_DIR")) +
      "/weft-data index --seq-length 16 --train-iters 10 --global-batch-size 8 --eval-iters 1 "
      "--eval-interval 10 --data-cache-path " +
      cache);
  ASSERT_EQ(wait(start_program(with(index, weighted_))), 0) << output();
  EXPECT_THAT(output(), HasSubstr("was there, mapped"));
  EXPECT_THAT(output(), Not(HasSubstr("built")));
}

TEST_F(BlendRun, CheckpointsKnowEveryDataset) {
  ASSERT_EQ(run(blend("run", 20, weighted_, {"--exit-interval", "5"})), 0) << output();
  const nlohmann::json manifest = manifest_of("run");
  EXPECT_THAT(manifest.at("datasets"), SizeIs(2));
  EXPECT_TRUE(manifest.at("dataset_prefix").is_null());

  Arguments other_weights = weighted_;
  other_weights[1] = "0.5";
  ASSERT_EQ(run(blend("run", 20, other_weights, {"--exit-interval", "10"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--data-path: training dataset 1 was 0.25 " + prefix_ +
                                  " when the checkpoint was saved and is 0.5 " + prefix_));

  write_tiny_dataset(folder_ / "other", 81);
  EXPECT_EQ(run(blend("run", 20, weighted_)), static_cast<int>(ExitCode::kBadInput)) << output();
  EXPECT_THAT(output(), HasSubstr("the dataset " + other_ + " was replaced or changed"));
}

TEST_F(BlendRun, AChangedFileOfListsIsToldAndEachPartOfTheRunIsShownAsItWas) {
  const std::string list = (folder_ / "list.txt").string();
  const Arguments data = {"--data-args-path", list, "--split", "90,5,5"};
  write_file_atomically(list, "0.25 " + prefix_ + " 0.75 " + other_);
  ASSERT_EQ(run(blend("run", 20, data, {"--exit-interval", "5"})), 0) << output();
  write_file_atomically(list, "0.9 " + prefix_ + "\n0.75 " + other_);
  ASSERT_EQ(run(blend("run", 20, data, {"--exit-interval", "10"})), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("WARNING: --data-args-path " + list + ": training dataset 1 was 0.25 " +
                        prefix_ + " when the checkpoint was saved and is 0.9 " + prefix_ +
                        " now: samples from here on may be others than without the change"));
  // Iterations of the first part took its blend, those of the second one the other.
  write_file_atomically(list, "1 " + other_);
  const auto inspect = [&](const Arguments& of_run, const Arguments& which) {
    Arguments all = with({std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-data", "inspect",
                          "samples", "--format", "jsonl"},
                         of_run);
    all.insert(all.end(), which.begin(), which.end());
    EXPECT_EQ(wait(start_program(all)), 0) << output();
    std::vector<std::string> shown;
    std::istringstream in(output());
    for (std::string line; std::getline(in, line);) {
      nlohmann::json sample = nlohmann::json::parse(line, nullptr, false);
      if (sample.is_object())
        shown.push_back(sample.at("dataset").dump() + sample.at("parts").dump());
    }
    return shown;
  };
  const std::string folder = (folder_ / "run").string();
  for (const auto& [iteration, weight, first, last] :
       {std::tuple{"5", "0.25", "32", "40"}, {"6", "0.9", "40", "48"}}) {
    const auto expected =
        inspect({"--data-path", weight, prefix_, "0.75", other_, "--split", "90,5,5",
                 "--seq-length", "16", "--train-iters", "20", "--global-batch-size", "8"},
                {"--sample-range", first, last});
    ASSERT_THAT(expected, SizeIs(8));
    EXPECT_EQ(inspect({"--run", folder}, {"--iteration", iteration}), expected);
    EXPECT_EQ(inspect({"--load", folder}, {"--iteration", iteration}), expected);
  }
}

TEST_F(BlendRun, AScheduleMayBeChangedBehindTheSamplesThatWereTaken) {
  const std::string file = (folder_ / "schedule.json").string();
  Arguments data = with(weighted_, {"--blend-schedule", file});
  const auto entry = [&](int64_t from, const std::string& weight) {
    return nlohmann::json{{"from_samples", from}, {"blend", {weight, prefix_, "0.5", other_}}};
  };
  const auto write = [&](const nlohmann::json& entries) {
    write_file_atomically(file, entries.dump());
  };
  const nlohmann::json taken = entry(20, "1.5");
  const auto changed = nlohmann::json::array({taken, entry(56, "0.1"), entry(100, "9")});
  write(changed);
  ASSERT_EQ(run(blend("whole", 20, data)), 0) << output();
  write(nlohmann::json::array({taken, entry(60, "3")}));
  ASSERT_EQ(run(blend("parts", 20, data, {"--exit-interval", "7"})), 0) << output();
  write(changed);
  ASSERT_EQ(run(blend("parts", 20, data)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("WARNING: --blend-schedule " + file +
                                  ": entry 2 was from sample 60 on 3 " + prefix_));
  EXPECT_THAT(output(), HasSubstr("it loses and repeats none, and samples from 56 on"));
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));

  // An entry that was followed already stays.
  write(nlohmann::json::array({entry(20, "1.4")}));
  EXPECT_EQ(run(blend("parts", 30, data, {"--override-lr-scheduler"})),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), HasSubstr("of entry 1, from sample 20 on, dataset 1 was 1.5 " + prefix_));
  EXPECT_THAT(output(),
              HasSubstr("some would come twice and others not at all; give the schedule"));
}

TEST_F(BlendRun, EachValidationGroupIsEvaluated) {
  const Arguments groups = {"--train-weighted-split-paths",
                            "T: 1 0:0.9 " + prefix_ + ", 2 0:0.9 " + other_,
                            "--valid-weighted-split-paths",
                            "ONE: 1 0.9:1 " + prefix_,
                            "TWO: 1 0.9:1 " + other_,
                            "--sample-order",
                            "bigscience"};
  ASSERT_EQ(run(blend("run", 10, groups)), 0) << output();
  int num_one = 0, num_two = 0;
  for (const nlohmann::json& line : metrics("run")) {
    num_one += line.dump().find("validation ONE") != std::string::npos ? 1 : 0;
    num_two += line.dump().find("validation TWO") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(num_one, 1);
  EXPECT_EQ(num_one, num_two);
}

TEST_F(BlendRun, OwnPathsOfEachSplitNeedNoSplit) {
  ASSERT_EQ(
      run(blend("run", 10, {"--train-data-path", prefix_, other_, "--valid-data-path", other_})), 0)
      << output();
  EXPECT_THAT(output(), Not(HasSubstr("for test data")));
  EXPECT_EQ(run(blend("none", 10, {"--train-data-path", prefix_})),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), HasSubstr("give --valid-data-path or --eval-iters 0"));
}

struct Validation {
  double loss = 0;
  int64_t num_samples = 0;
};

TEST_F(BlendRun, FullValidationIsTheMeanOverEverySampleOfTheSet) {
  // Evaluates the initial weights with batches of `batch` samples.
  const auto validate = [&](const std::string& name, const Arguments& prefixes, int64_t batch,
                            Arguments more) {
    Arguments data = with({"--data-path"}, prefixes);
    data.insert(data.end(), {"--split", "90,5,5"});
    more.insert(more.end(), {"--skip-train", "--global-batch-size", std::to_string(batch),
                             "--micro-batch-size", std::to_string(batch > 1 ? batch / 2 : 1)});
    EXPECT_EQ(run(blend(name, 10, data, more)), 0) << output();
    Validation result;
    result.num_samples = manifest_of(name).at("dataset_samples").at("validation").get<int64_t>();
    for (const nlohmann::json& line : metrics(name))
      result.loss = line.value("validation_loss", result.loss);
    EXPECT_GT(result.loss, 0);
    return result;
  };
  const Validation one = validate("one", {prefix_}, 1, {"--full-validation"});
  EXPECT_THAT(output(), HasSubstr("    validation: None"));
  // Batches that do not divide the set.
  ASSERT_NE(one.num_samples % 10, 0);
  EXPECT_NEAR(validate("ten", {prefix_}, 10, {"--full-validation"}).loss, one.loss, 1e-5);
  // Both datasets, each of them whole.
  const Validation other = validate("other_alone", {other_}, 1, {"--full-validation"});
  const Validation both = validate("both", {prefix_, other_}, 10, {"--full-validation"});
  EXPECT_EQ(both.num_samples, one.num_samples + other.num_samples);
  const auto weight = static_cast<double>(one.num_samples) / static_cast<double>(both.num_samples);
  EXPECT_NEAR(both.loss, weight * one.loss + (1 - weight) * other.loss, 1e-5);
}

TEST_F(BlendRun, FullValidationTakesTheSameSamplesAfterARestart) {
  const Arguments data = {"--data-path", prefix_, other_, "--split", "90,5,5"};
  ASSERT_EQ(run(blend("whole", 20, data, {"--full-validation"})), 0) << output();
  ASSERT_EQ(run(blend("parts", 20, data, {"--full-validation", "--exit-interval", "7"})), 0)
      << output();
  ASSERT_EQ(run(blend("parts", 20, data, {"--full-validation"})), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
  // weft-data shows the samples of an evaluation: all of them.
  const int64_t num_samples = manifest_of("whole").at("dataset_samples").at("validation");
  ASSERT_EQ(wait(start_program({std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-data", "inspect",
                                "samples", "--run", (folder_ / "whole").string(), "--split-name",
                                "valid", "--iteration", "10", "--format", "jsonl"})),
            0)
      << output();
  const std::string shown = output();
  int64_t num_shown =
      0;  // without what is said to people, for example that no vocabulary was found
  for (size_t at = 0; (at = shown.find("{\"sample\":", at)) != std::string::npos; ++at) ++num_shown;
  EXPECT_EQ(num_shown, num_samples) << shown;
}

// They would end in the middle of the run: without weights each sample comes once.
TEST_F(BlendRun, DatasetsWithoutWeightsThatHaveTooFewSamplesAreRefusedAtTheStart) {
  const auto refusal = [&](const Arguments& more) {
    EXPECT_EQ(run(blend("run", 20, {"--data-path", prefix_, other_, "--split", "96,2,2"}, more)),
              static_cast<int>(ExitCode::kUsage))
        << output();
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run/metrics.jsonl"));
    return output();
  };
  // Three evaluations of 100 batches; and one test of as many.
  const std::string validation = refusal({"--eval-iters", "100"});
  EXPECT_THAT(validation, HasSubstr("validation needs 2400 samples, and its 2 datasets without "
                                    "weights have "));
  EXPECT_THAT(validation, HasSubstr("each of which comes once: " + prefix_ + " has "));
  EXPECT_THAT(validation, HasSubstr("or weights (WEIGHT PREFIX WEIGHT PREFIX ...)"));
  EXPECT_THAT(refusal({"--eval-iters", "100", "--full-validation"}),
              HasSubstr("test needs 800 samples"));
  EXPECT_THAT(refusal({"--train-iters", "2000"}), HasSubstr("training needs 16000 samples, and"));
  ASSERT_EQ(run(blend("run", 20, {"--data-path", "1", prefix_, "1", other_, "--split", "96,2,2"},
                      {"--eval-iters", "100", "--exit-interval", "1"})),
            0)
      << output();
}

// The checkpoint of iteration 10 is that of its evaluation, too, which must not be made once more.
TEST_F(BlendRun, ValidationWithoutWeightsThatBeginsAgainLastsToTheEnd) {
  const Arguments data = {"--data-path", prefix_, other_, "--split", "98,1,1"};
  ASSERT_EQ(run(blend("run", 10, data)), 0) << output();
  ASSERT_EQ(run(blend("run", 20, data, {"--override-lr-scheduler"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("WARNING: validation begins again with sample 0: 8 samples were "
                                  "consumed before the checkpoint, 16 more would be needed"));
  EXPECT_EQ(manifest_of("run").at("makes_up_evaluation"), false);
}

// The evaluation of iteration 10, where the run resumes, is missing, so this run makes three of
// them.
TEST_F(BlendRun, AnEvaluationThatIsMadeUpCountsAmongTheSamplesThatValidationNeeds) {
  const Arguments data = {"--data-path", prefix_, other_, "--split", "98,1,1"};
  ASSERT_EQ(run(blend("run", 10, data)), 0) << output();
  edit_checkpoint("run", 10, [](auto& info) { info["consumed_valid_samples"] = 0; });
  EXPECT_EQ(run(blend("run", 20, data, {"--override-lr-scheduler"})),
            static_cast<int>(ExitCode::kUsage))
      << output();
  EXPECT_THAT(output(), HasSubstr("validation needs 24 samples, and its 2 datasets without"));
}

// A whole validation begins with the same sample each time.
TEST_F(BlendRun, AWholeValidationThatIsMissingIsMadeUpFor) {
  const Arguments data = {"--data-path", prefix_, "--split", "98,1,1"};
  const auto whole = [&](const char* last) {
    return blend("run", 30, data, {"--full-validation", "--exit-interval", last});
  };
  ASSERT_EQ(run(whole("20")), 0) << output();
  EXPECT_EQ(manifest_of("run").at("makes_up_evaluation"), false);
  edit_checkpoint("run", 20, [](auto& info) {
    info["consumed_valid_samples"] = info["consumed_valid_samples"].template get<int64_t>() / 2;
  });
  ASSERT_EQ(run(whole("30")), 0) << output();
  EXPECT_THAT(output(), HasSubstr("validation loss at iteration 20"));
  EXPECT_EQ(manifest_of("run").at("makes_up_evaluation"), true);
}

TEST_F(BlendRun, FullValidationRefusesWeights) {
  Arguments all = blend("run", 10, weighted_, {"--full-validation"});
  EXPECT_EQ(run(all), static_cast<int>(ExitCode::kUsage)) << output();
  EXPECT_THAT(output(), HasSubstr("so weights would mean nothing"));
}

}  // namespace
}  // namespace weft
