// weft-data inspect samples --run tells what each iteration of a run took, also after the run was
// resumed with other arguments.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/sample_losses.h"
#include "tests/preprocess/inspect/inspect_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

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

TEST_F(InspectRun, RefusesAChangedManifestOfACheckpoint) {
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "5"})), 0) << output();
  const std::filesystem::path checkpoint = folder_ / "run" / "iter_0000005";
  std::string manifest = read_file(checkpoint / "manifest.json");
  manifest.replace(manifest.rfind("\"seed\": 1234"), 12, "\"seed\": 1235");
  write_file_atomically(checkpoint / "manifest.json", manifest);
  EXPECT_EQ(inspect({"--load", checkpoint.string(), "--iteration", "3"}),
            static_cast<int>(ExitCode::kChecksumMismatch));
  EXPECT_THAT(output(), HasSubstr("the manifest was changed since it was written"));
}

TEST_F(InspectRun, ShowsTheRunBehindACheckpoint) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 30, {"--seed", "99", "--exit-interval", "10"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 30, {"--seed", "5", "--exit-interval", "15"})), 0) << output();
  const std::string folder = (folder_ / "run").string(), second = folder + "/iter_0000010";
  for (const std::string iteration : {"3", "8"}) {
    ASSERT_EQ(inspect_run("run", {"--iteration", iteration}), 0) << output();
    const auto expected = samples();
    for (const std::string& load : {folder, second, second + "/"}) {
      ASSERT_EQ(inspect({"--load", load, "--iteration", iteration}), 0) << output();
      EXPECT_EQ(samples(), expected) << load;
    }
  }
  // The checkpoint does not know that the seed changed behind it.
  ASSERT_EQ(inspect_run("run", {"--iteration", "12"}), 0) << output();
  const auto of_run = samples();
  ASSERT_EQ(inspect({"--load", second, "--iteration", "12"}), 0) << output();
  EXPECT_NE(samples(), of_run);
  ASSERT_EQ(inspect_by("exposure", {"--load", second}), 0) << output();
  EXPECT_EQ(samples().at(0).at("samples"), 80);
  EXPECT_EQ(inspect({"--load", second, "--iteration", "3", "--seed", "4"}), 2);
  EXPECT_THAT(output(), HasSubstr("--load already says how the run was trained: leave --seed out"));
  EXPECT_EQ(inspect({"--load", second, "--run", folder, "--iteration", "3"}), 2);
  EXPECT_THAT(output(), HasSubstr("--run and --load both say which run is meant"));
}

TEST_F(InspectRun, RefusesACheckpointThatItsListOfSegmentsContradicts) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  const std::filesystem::path manifest = folder_ / "run/iter_0000005/manifest.json";
  const std::string load = (folder_ / "run").string(), kept = read_file(manifest);
  edit_checkpoint("run", 5, [](nlohmann::ordered_json& info) { info["arguments"]["seed"] = 7; });
  EXPECT_EQ(inspect({"--load", load, "--iteration", "3"}), 3);
  EXPECT_THAT(output(), HasSubstr("seed is 7 in the checkpoint and 1234 in the list"));
  // Of a list of datasets only the first difference is told.
  write_file_atomically(manifest, kept);
  int64_t tokens = 0;
  edit_checkpoint("run", 5, [&](nlohmann::ordered_json& info) {
    nlohmann::ordered_json& dataset = info["data"]["datasets"][0];
    tokens = dataset["tokens"];
    dataset["tokens"] = tokens + 1;
  });
  EXPECT_EQ(inspect({"--load", load, "--iteration", "3"}), 3);
  EXPECT_THAT(output(),
              HasSubstr("the list of datasets at /0/tokens is " + std::to_string(tokens + 1) +
                        " in the checkpoint and " + std::to_string(tokens) + " in the list"));
  write_file_atomically(manifest, kept);
  forget_segments("run", 5);
  EXPECT_EQ(inspect({"--load", load, "--iteration", "3"}), 3);
  EXPECT_THAT(output(), HasSubstr("it does not list the parts of its run"));
  EXPECT_EQ(inspect({"--load", (folder_ / "absent").string(), "--iteration", "3"}), 3);
  EXPECT_THAT(output(), HasSubstr("there is no checkpoint of weft-train"));
  // Checkpoints may lie elsewhere than the run's folder, which their arguments name.
  ASSERT_EQ(run(arguments("apart", 30,
                          {"--exit-interval", "5", "--run-dir", (folder_ / "log").string()})),
            0)
      << output();
  ASSERT_EQ(inspect({"--load", (folder_ / "apart").string(), "--iteration", "3"}), 0) << output();
  EXPECT_EQ(samples().size(), 8U);
}

TEST_F(InspectRun, TellsWhereValidationBeginsAgainWithFewerSamples) {
  ASSERT_EQ(run(arguments("run", 40, {"--eval-interval", "2", "--exit-interval", "20"})), 0);
  ASSERT_EQ(run(arguments("run", 40, {"--exit-interval", "30"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("WARNING: validation begins again with sample 0: 80 samples were "
                                  "consumed before the checkpoint, 24 more would be needed"));
  EXPECT_THAT(output(), HasSubstr("--eval-interval was 2 when the checkpoint was saved"));
  ASSERT_EQ(inspect_run("run", {"--split-name", "valid", "--iteration", "30"}), 0) << output();
  EXPECT_EQ(samples().at(0).at("sample"), 0);
}

// After an evaluation of a set that has begun again as many samples are consumed as before one that
// was cut short in a run whose set has not.
TEST_F(InspectRun, MakesUpForNoEvaluationThatWasMadeOfASetThatBeganAgain) {
  ASSERT_EQ(run(arguments("run", 40, {"--eval-interval", "1", "--exit-interval", "10"})), 0);
  ASSERT_EQ(run(arguments("run", 40, {"--exit-interval", "20"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("WARNING: validation begins again with sample 0"));
  ASSERT_EQ(run(arguments("run", 40, {"--exit-interval", "30"})), 0) << output();
  int num_evaluations = 0;
  for (const nlohmann::json& line : metrics("run")) {
    if (line.contains("validation_loss") && line.at("iteration") == 20) ++num_evaluations;
  }
  EXPECT_EQ(num_evaluations, 1);
  ASSERT_EQ(inspect_run("run", {"--split-name", "valid", "--iteration", "30"}), 0) << output();
  EXPECT_EQ(samples().at(0).at("sample"), 8);
}

// Of one epoch of a cyclic order every sample comes once, whatever the micro-batches are.
TEST_F(InspectRun, ShowsACyclicRunThatWasResumedWithOtherMicroBatches) {
  const Arguments cyclic = {"--dataloader-type", "cyclic"};
  const auto with = [&](const Arguments& more) {
    Arguments all = cyclic;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run(arguments("whole", 15, cyclic)), 0) << output();
  ASSERT_EQ(run(arguments("run", 15, with({"--exit-interval", "5"}))), 0) << output();
  ASSERT_EQ(run(arguments("run", 15, with({"--exit-interval", "10", "--micro-batch-size", "4"}))),
            0)
      << output();
  EXPECT_THAT(output(),
              HasSubstr("the order stays that of --micro-batch-size 2 and 1 data-parallel"));
  ASSERT_EQ(run(arguments("run", 15, with({"--micro-batch-size", "1"}))), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("the order stays that of --micro-batch-size 2 and 1 data-parallel"));
  const auto tokens_of = [&](const std::string& name) {
    EXPECT_EQ(inspect_run(name, {"--sample-range", "0", "120"}), 0) << output();
    std::vector<nlohmann::json> tokens;
    for (const nlohmann::json& sample : samples()) tokens.push_back(sample.at("parts"));
    return tokens;
  };
  const auto tokens = tokens_of("run");
  EXPECT_EQ(tokens.size(), 120U);
  EXPECT_EQ(tokens, tokens_of("whole"));
  expect_samples_of_metrics("run");
}

// Every command reads the manifest, and none may answer where the run's own log tells otherwise.
TEST_F(InspectRun, RefusesAManifestThatTheMetricsContradict) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  const Arguments smaller = {"--global-batch-size", "4", "--override-lr-scheduler"};
  ASSERT_EQ(run(arguments("run", 10, smaller)), 0) << output();
  ASSERT_EQ(run(arguments("other", 10, smaller)), 0) << output();
  const std::string folder = (folder_ / "run").string();
  const std::filesystem::path manifest = folder_ / "run/run_manifest.json";
  const std::vector<std::pair<std::string, Arguments>> commands = {
      {"samples", {"--iteration", "3"}},
      {"samples", {"--sample-range", "0", "1"}},
      {"samples", {"--iteration", "10", "--split-name", "valid"}},
      {"stats", {"--iterations", "1", "3"}},
      {"grep", {"a", "--iterations", "1", "3"}},
      {"documents", {"--document", "0"}},
      {"exposure", {}},
      {"spikes", {}}};
  const std::string kept = read_file(manifest);
  // A segment in the middle is compared, too: the last one is the run's own.
  edit_run_manifest("run", [](nlohmann::ordered_json& middle) {
    middle.at("earlier").at(0)["arguments"]["global_batch_size"] = 4;
  });
  for (const std::string& wrong :
       {read_file(folder_ / "other/run_manifest.json"), read_file(manifest)}) {
    for (const auto& [name, more] : commands) {
      Arguments all = more;
      all.insert(all.end(), {"--run", folder});
      write_file_atomically(manifest, kept);
      // Two of them need a vocabulary, which this dataset does not have.
      if (name != "stats" && name != "grep") {
        ASSERT_EQ(inspect_by(name, all), 0) << name << output();
      }
      write_file_atomically(manifest, wrong);
      EXPECT_EQ(inspect_by(name, all), static_cast<int>(ExitCode::kBadInput)) << name << output();
      EXPECT_THAT(output(), HasSubstr("are not of one run")) << name;
    }
    EXPECT_EQ(inspect_by("diff", {folder, (folder_ / "other").string()}),
              static_cast<int>(ExitCode::kBadInput));
  }
}

TEST_F(InspectRun, RefusesEvaluationsAndIterationsBehindTheEndOfTheRun) {
  // Every evaluation is of all samples, so that their numbers alone refuse nothing.
  const Arguments whole = {"--full-validation", "--eval-interval", "4", "--exit-interval", "5"};
  ASSERT_EQ(run(arguments("run", 10, whole)), 0) << output();
  Arguments shorter = whole;
  shorter.insert(shorter.end(), {"--global-batch-size", "4", "--override-lr-scheduler"});
  ASSERT_EQ(run(arguments("run", 10, shorter)), 0) << output();
  const auto expect_refused = [&](const Arguments& selection, const std::string& message) {
    EXPECT_EQ(inspect_run("run", selection), static_cast<int>(ExitCode::kUsage)) << output();
    EXPECT_THAT(output(), HasSubstr(message));
  };
  ASSERT_EQ(inspect_run("run", {"--split-name", "valid", "--iteration", "8"}), 0) << output();
  const auto evaluated = samples();
  ASSERT_EQ(inspect_run("run", {"--split-name", "valid", "--iterations", "5", "10"}), 0);
  // The evaluation when training is done is of all samples, too, and says so.
  auto both = samples();
  ASSERT_EQ(both.size(), 2 * evaluated.size());
  for (size_t i = 0; i < evaluated.size(); ++i) {
    EXPECT_EQ(both[i], evaluated[i]);
    EXPECT_EQ(both[evaluated.size() + i].value("at_end", false), true);
    EXPECT_EQ(both[evaluated.size() + i].at("iteration"), 10);
    EXPECT_EQ(both[evaluated.size() + i].at("ids"), evaluated[i].at("ids"));
  }
  const std::string last = "the run's last one is 10, by --train-iters 10";
  for (const Arguments& selection :
       {Arguments{"--iteration", "4000"}, Arguments{"--iterations", "1", "12"},
        Arguments{"--log-line", " validation loss at iteration 12 | lm loss value: 7.0E+00 |"}}) {
    Arguments of_valid = {"--split-name", "valid"};
    of_valid.insert(of_valid.end(), selection.begin(), selection.end());
    expect_refused(of_valid, last + "; the last evaluation follows iteration 10");
  }
  // The range begins in the first part of the run.
  expect_refused({"--iterations", "2", "11"}, "iteration 11 is asked for, but " + last);
  expect_refused({"--log-line", " iteration       11/      10 | consumed samples:  64 |"}, last);
  const std::string folder = (folder_ / "run").string();
  EXPECT_EQ(inspect_by("exposure", {"--run", folder, "--iteration", "11"}),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), HasSubstr(last));
}

TEST_F(InspectRun, SaysWhichIterationsAreStillToCome) {
  ASSERT_EQ(run(arguments("run", 10, {"--exit-interval", "5"})), 0) << output();
  const std::string told = "trained until iteration 5: later ones are what the run takes";
  for (const Arguments& selection :
       {Arguments{"--iterations", "5", "6"}, Arguments{"--sample-range", "30", "41"},
        Arguments{"--split-name", "valid", "--iteration", "10"}}) {
    ASSERT_EQ(inspect_run("run", selection), 0) << output();
    EXPECT_THAT(output(), HasSubstr(told));
  }
  const std::string folder = (folder_ / "run").string();
  ASSERT_EQ(inspect_by("exposure", {"--run", folder, "--iteration", "6"}), 0) << output();
  EXPECT_THAT(output(), HasSubstr(told));
  for (const Arguments& selection :
       {Arguments{"--iterations", "1", "5"}, Arguments{"--sample-range", "30", "40"}}) {
    ASSERT_EQ(inspect_run("run", selection), 0) << output();
    EXPECT_THAT(output(), testing::Not(HasSubstr("trained until")));
  }
}

// A run of 60 iterations of 8 samples, whose files say other losses than it had: the weights of
// iteration 34 were bad, and 35 recovers; one text of iteration 50 is unlike all others, which
// moves the mean of its batch less than chance does.
class InspectLosses : public InspectRun {
 protected:
  void SetUp() override {
    InspectRun::SetUp();
    ASSERT_EQ(run(arguments("run", 60)), 0) << output();
    std::mt19937 random(5);
    std::normal_distribution<float> noise(2, 0.2F);
    const std::filesystem::path folder = folder_ / "run";
    std::filesystem::remove(folder / kSampleLossesName);
    SampleLossWriter losses(folder / kSampleLossesName, 0);
    std::string lines;
    for (nlohmann::json line : metrics("run")) {
      if (!line.contains("lm_loss")) continue;
      const int64_t iteration = line.at("iteration");
      std::vector<float> samples(8);
      for (float& loss : samples) loss = noise(random);
      if (iteration == 34) {
        for (const size_t i : {1, 3, 4, 6}) samples[i] += 5;
      }
      if (iteration == 35) samples[2] += 2;
      if (iteration == 50) samples[3] += 1.8F;
      losses.add(iteration, 8 * (iteration - 1), samples);
      line["lm_loss"] = std::accumulate(samples.begin(), samples.end(), 0.0F) / 8;
      line["grad_norm"] = iteration == 35 ? 30 : 1 + noise(random) / 10;
      lines += line.dump() + "\n";
    }
    write_file_atomically(folder / "metrics.jsonl", lines);
  }
  int spikes_for_people() {
    return wait(start_program({std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-data", "inspect",
                               "spikes", "--run", run_}));
  }
  const std::string run_ = (folder_ / "run").string();
};

TEST_F(InspectLosses, OfAnUnstableOptimizerNameNoDocument) {
  ASSERT_EQ(inspect_by("spikes", {"--run", run_}), 0) << output();
  std::map<int64_t, nlohmann::json> by_iteration;
  for (const nlohmann::json& answer : samples()) by_iteration[answer.at("iteration")] = answer;
  for (const int64_t iteration : {34, 35}) {
    const nlohmann::json& jump = by_iteration.at(iteration);
    EXPECT_EQ(jump.value("likely_cause", ""), "update") << jump;
    EXPECT_EQ(jump.at("suspects_of_iteration"), 34) << jump;
    EXPECT_EQ(jump.at("samples").size(), 0U) << jump;
  }
  ASSERT_EQ(spikes_for_people(), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("4 of the 8 samples of iteration 34 stand out at once: rather the "
                        "update before it than the text is the likely cause"));
  EXPECT_THAT(output(), testing::Not(HasSubstr("text that stands out")));
}

TEST_F(InspectLosses, OfASampleAreListedThoughItsIterationDoesNotJump) {
  ASSERT_EQ(inspect_by("spikes", {"--run", run_}), 0) << output();
  const nlohmann::json quiet = samples().back();
  EXPECT_EQ(quiet.at("iteration"), 50);
  EXPECT_EQ(quiet.at("jumps"), false);
  ASSERT_EQ(quiet.at("samples").size(), 1U) << quiet;
  EXPECT_EQ(quiet.at("samples")[0].at("sample"), 49 * 8 + 3);
  EXPECT_GE(quiet.at("samples")[0].at("z"), 6.0);
  EXPECT_GE(quiet.at("samples")[0].at("documents").size(), 1U);
  ASSERT_EQ(spikes_for_people(), 0) << output();
  EXPECT_THAT(output(), HasSubstr("iteration 50 does not jump, but has samples that stand out: "));
  EXPECT_THAT(output(), HasSubstr("  sample 395: loss "));
}

TEST_F(InspectRun, RefusesAnOrderThatItDoesNotKnow) {
  ASSERT_EQ(run(arguments("run", 6)), 0) << output();
  edit_run_manifest("run", [](nlohmann::ordered_json& manifest) {
    manifest["arguments"]["sample_order"] = "later";
  });
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("the run's --sample-order is later"));
}

TEST_F(InspectRun, RefusesADatasetOfABlendThatWasReplaced) {
  const std::string other = write_tiny_dataset(folder_ / "other", 200);
  Arguments blend = arguments("run", 6);
  const auto path = std::find(blend.begin(), blend.end(), prefix_);
  *path = "0.3";
  blend.insert(path + 1, {prefix_, "0.7", other});
  ASSERT_EQ(run(blend), 0) << output();
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}), 0) << output();
  for (const char* suffix : {".bin", ".idx"}) std::filesystem::remove(other + suffix);
  write_tiny_dataset(other, 201);
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("the dataset " + other +
                                  " was replaced or changed: the run read "
                                  "200 documents"));
}

}  // namespace
}  // namespace weft
