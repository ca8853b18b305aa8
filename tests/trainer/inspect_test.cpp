// weft-data inspect samples --run tells what each iteration of a run took, also after the run was
// resumed with other arguments.
#include <gmock/gmock.h>

#include <fstream>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"
#include "tests/trainer/inspect_run.h"

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
    EXPECT_EQ(inspect({"--data-path", prefix_, "--split", "90,5,5", "--seq-length", "16",
                       "--train-iters", "30", "--global-batch-size", "8", "--micro-batch-size", "2",
                       "--data-parallel-size", "1", "--seed", seed, "--sample-range", first, last}),
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

// A run goes back to an older checkpoint with another seed and batch size, and later returns to a checkpoint of the
// way that it had left.
TEST_F(InspectRun, KnowsTheWayOfARunThatWentBackAndReturned) {
  const auto shown = [this](const Arguments& of_run, const std::string& iteration) {
    Arguments all = of_run;
    all.insert(all.end(), {"--iteration", iteration});
    EXPECT_EQ(inspect(all), 0) << output();
    return samples();
  };
  const std::string folder = (folder_ / "run").string();
  const Arguments of_run = {"--run", folder}, of_whole = {"--run", (folder_ / "whole").string()},
                  other = {"--seed", "99", "--global-batch-size", "4", "--override-lr-scheduler"};
  const auto go_on = [&](const std::string& from, const std::string& to, const Arguments& more) {
    Arguments all = {"--ckpt-step", from, "--exit-interval", to};
    all.insert(all.end(), more.begin(), more.end());
    ASSERT_EQ(run(arguments("run", 20, all)), 0) << output();
  };
  const auto logged = [this] {
    std::vector<int64_t> iterations;
    for (const nlohmann::json& line : metrics("run")) {
      if (line.contains("lm_loss")) iterations.push_back(line.at("iteration"));
    }
    return iterations;
  };
  ASSERT_EQ(run(arguments("whole", 20, {"--exit-interval", "12"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  go_on("5", "7", other);
  EXPECT_THAT(output(), HasSubstr("holds checkpoints up to iteration 10: this run goes another way "
                                  "from iteration 5 on"));
  const auto of_other = shown(of_run, "6");
  EXPECT_EQ(of_other.size(), 4U);
  EXPECT_EQ(shown(of_run, "4"), shown(of_whole, "4"));
  // The checkpoint of the way that was left knows its own.
  const std::string left = folder + "/iter_0000010";
  EXPECT_EQ(shown({"--load", left}, "6"), shown(of_whole, "6"));

  go_on("10", "12", {});
  EXPECT_THAT(output(), HasSubstr("iterations 6 to 10 of this checkpoint are not in them"));
  for (const char* iteration : {"4", "6", "8", "11"})
    EXPECT_EQ(shown(of_run, iteration), shown(of_whole, iteration)) << iteration;
  EXPECT_THAT(logged(), testing::ElementsAre(1, 2, 3, 4, 5, 11, 12));
  ASSERT_EQ(inspect_run("run", {"--iteration", "11", "--sort", "loss"}), 0) << output();
  EXPECT_EQ(inspect_run("run", {"--iteration", "6", "--sort", "loss"}), 2);
  EXPECT_THAT(output(), HasSubstr("no losses of iteration 6: metrics.jsonl does not tell of it"));

  go_on("7", "9", other);
  EXPECT_EQ(shown(of_run, "6"), of_other);
  EXPECT_EQ(shown(of_run, "4"), shown(of_whole, "4"));
  EXPECT_THAT(logged(), testing::ElementsAre(1, 2, 3, 4, 5, 8, 9));
}

TEST_F(InspectRun, KnowsThePartsOfARunThatGoesOnFromACheckpointOfAnOlderVersion) {
  ASSERT_EQ(run(arguments("whole", 20, {"--exit-interval", "5"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "5"})), 0) << output();
  forget_segments("run", 5);
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10", "--seed", "7"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "15", "--seed", "8"})), 0) << output();
  ASSERT_EQ(inspect_run("whole", {"--iteration", "5"}), 0) << output();
  const auto expected = samples();
  const std::string last = (folder_ / "run").string();
  for (const Arguments& of_run : {Arguments{"--run", last}, Arguments{"--load", last}}) {
    Arguments all = of_run;
    all.insert(all.end(), {"--iteration", "5"});
    ASSERT_EQ(inspect(all), 0) << output();
    EXPECT_EQ(samples(), expected);
  }
  expect_samples_of_metrics("run");
}

// Iterations do not tell which way an older checkpoint is of.
TEST_F(InspectRun, RefusesThePastOfAnOlderCheckpointThatTheManifestDoesNotTell) {
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  forget_segments("run", 5);
  forget_segments("run", 10);
  const Arguments other = {"--ckpt-step", "5", "--exit-interval", "7", "--seed", "99"};
  ASSERT_EQ(run(arguments("run", 20, other)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--ckpt-step", "10", "--exit-interval", "12"})), 0);
  EXPECT_THAT(output(), HasSubstr("nothing tells what iterations up to 10 have read"));
  EXPECT_THAT(output(), HasSubstr("it is kept as metrics.jsonl.before_0000010"));
  EXPECT_EQ(inspect_run("run", {"--iteration", "6"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of iterations from 11 on"));
  EXPECT_EQ(inspect_run("run", {"--iteration", "11", "--sort", "loss"}), 0) << output();
}

// Without the manifest nothing tells whether the logs are those of the way that the checkpoint is of.
TEST_F(InspectRun, ShowsNoLossesOfAnotherWayWhereTheManifestIsLost) {
  for (const bool is_damaged : {false, true}) {
    const std::string name = is_damaged ? "damaged" : "lost";
    ASSERT_EQ(run(arguments(name, 20, {"--exit-interval", "10"})), 0) << output();
    const Arguments other = {"--ckpt-step", "5", "--exit-interval", "7", "--seed", "99"};
    ASSERT_EQ(run(arguments(name, 20, other)), 0) << output();
    const std::filesystem::path manifest = folder_ / name / "run_manifest.json";
    std::filesystem::remove(manifest);
    if (is_damaged) write_file_atomically(manifest, "{");
    ASSERT_EQ(run(arguments(name, 20, {"--ckpt-step", "10", "--exit-interval", "12"})), 0);
    EXPECT_THAT(output(), HasSubstr("sample_losses.bin.before_0000010"));
    EXPECT_EQ(inspect_run(name, {"--iteration", "6"}), 0) << output();
    EXPECT_EQ(inspect_run(name, {"--iteration", "6", "--sort", "loss"}), 2) << output();
    EXPECT_EQ(metrics(name).front().at("iteration"), 11);
    EXPECT_TRUE(std::filesystem::exists(folder_ / name / "metrics.jsonl.before_0000010"));
  }
}

// Such a run may be killed before its next checkpoint any number of times.
TEST_F(InspectRun, KeepsTheLogsThatItSetAsideWhenItIsRestartedAgain) {
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  forget_segments("run", 10);
  const std::string aside = (folder_ / "run" / "metrics.jsonl.before_0000010").string();
  std::filesystem::remove(folder_ / "run" / "run_manifest.json");
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "12", "--save-interval", "100"})), 0);
  const std::string kept = read_file(aside);
  ASSERT_EQ(std::ranges::count(kept, '\n'), 11);  // with an evaluation

  // The second restart knows the logs of the first one.
  ASSERT_EQ(run(arguments("run", 20, {"--ckpt-step", "10", "--exit-interval", "13"})), 0);
  EXPECT_EQ(read_file(aside), kept);
  EXPECT_FALSE(std::filesystem::exists(aside + ".2"));
  EXPECT_EQ(metrics("run").front().at("iteration"), 11);

  std::filesystem::remove(folder_ / "run" / "run_manifest.json");
  ASSERT_EQ(run(arguments("run", 20, {"--ckpt-step", "10", "--exit-interval", "13"})), 0);
  EXPECT_THAT(output(), HasSubstr("it is kept as metrics.jsonl.before_0000010.2"));
  EXPECT_EQ(read_file(aside), kept);
}

TEST_F(InspectRun, KeepsTheLogsOfAnotherRunInItsFolder) {
  ASSERT_EQ(run(arguments("other", 20, {"--exit-interval", "10"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "5"})), 0) << output();
  const std::string logged = read_file(folder_ / "other" / "metrics.jsonl");
  ASSERT_EQ(run(arguments("run", 20,
                          {"--exit-interval", "8", "--run-dir", (folder_ / "other").string()})),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("the log there is of another run"));
  EXPECT_EQ(read_file(folder_ / "other" / "metrics.jsonl.before_0000005"), logged);
  EXPECT_EQ(metrics("other").front().at("iteration"), 6);
}

TEST_F(InspectRun, WarnsOfStepsThatNoLogHas) {
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  const std::filesystem::path log = folder_ / "run" / "metrics.jsonl";
  const std::string logged = read_file(log);
  write_file_atomically(log, logged.substr(0, logged.find("\"iteration\":6") - 1));
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "12"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("metrics.jsonl lacks the iterations 6 to 10 of this run"));
}

// A run that came from another folder has never logged there what it had trained before.
TEST_F(InspectRun, MissesNoStepsThatAnotherFolderHas) {
  ASSERT_EQ(run(arguments("first", 20, {"--exit-interval", "5"})), 0) << output();
  Arguments second = arguments("second", 20, {"--exit-interval", "7", "--save-interval", "100"});
  *(std::find(second.begin(), second.end(), "--load") + 1) = (folder_ / "first").string();
  ASSERT_EQ(run(second), 0) << output();
  std::filesystem::remove_all(folder_ / "second" / "iter_0000007");
  std::filesystem::remove(folder_ / "second" / "latest_checkpointed_iteration.txt");
  std::filesystem::remove(folder_ / "second" / "metrics.jsonl");
  ASSERT_EQ(run(second), 0) << output();
  EXPECT_THAT(output(), testing::Not(HasSubstr("metrics.jsonl lacks")));
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

TEST_F(InspectRun, FindsTheUnseenDocumentsOfAPastInAnotherFolder) {
  const std::string file = (folder_ / "unsee").string();
  write_file_atomically(file, prefix_ + " 5\n");
  ASSERT_EQ(run(arguments("first", 20, {"--exit-interval", "5", "--unsee", file})), 0) << output();
  Arguments second = arguments("second", 20, {"--exit-interval", "10"});
  *(std::find(second.begin(), second.end(), "--load") + 1) = (folder_ / "first").string();
  ASSERT_EQ(run(second), 0) << output();
  std::filesystem::remove(file);
  EXPECT_EQ(inspect_run("second", {"--iteration", "3"}), 0) << output();
  EXPECT_EQ(inspect_run("second", {"--iteration", "9", "--sort", "loss"}), 0) << output();
}

// A run that goes on in a folder of its own has the past of the checkpoint that it loaded.
TEST_F(InspectRun, KnowsThePastThatARunHasInAnotherFolder) {
  ASSERT_EQ(run(arguments("first", 30, {"--exit-interval", "5"})), 0) << output();
  Arguments second = arguments("second", 30, {"--exit-interval", "10", "--seed", "7"});
  *(std::find(second.begin(), second.end(), "--load") + 1) = (folder_ / "first").string();
  ASSERT_EQ(run(second), 0) << output();
  ASSERT_EQ(inspect_run("first", {"--iteration", "5"}), 0) << output();
  const auto expected = samples();
  ASSERT_EQ(inspect_run("second", {"--iteration", "5"}), 0) << output();
  EXPECT_EQ(samples(), expected);
  const auto manifest = nlohmann::json::parse(read_file(folder_ / "second/run_manifest.json"));
  EXPECT_EQ(manifest.at("earlier").size(), 1U);
  EXPECT_EQ(manifest.at("resumed_iteration"), 5);
}

TEST_F(InspectRun, RefusesWhatTheFolderDoesNotTell) {
  ASSERT_EQ(run(arguments("first", 30, {"--exit-interval", "5"})), 0) << output();
  Arguments second = arguments("second", 30, {"--exit-interval", "10"});
  for (size_t i = 0; i + 1 < second.size(); ++i) {
    if (second[i] == "--load") second[i + 1] = (folder_ / "first").string();
  }
  ASSERT_EQ(run(second), 0) << output();
  // A manifest of older versions tells of the run in this folder only.
  const std::filesystem::path path = folder_ / "second/run_manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(read_file(path));
  manifest["earlier"] = nlohmann::json::array();
  write_file_atomically(path, manifest.dump());
  EXPECT_EQ(inspect_run("second", {"--iteration", "6"}), 0) << output();
  EXPECT_EQ(samples().at(0).at("sample"), 40);
  EXPECT_EQ(inspect_run("second", {"--iteration", "5"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of iterations from 6 on"));
  EXPECT_EQ(inspect_run("second", {"--sample-range", "39", "41"}),
            static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of samples from 40 on"));
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

TEST_F(InspectRun, RefusesAnOlderCheckpointThatItsRunManifestContradicts) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  forget_segments("run", 5);
  ASSERT_EQ(run(arguments("other", 30, {"--seed", "7", "--exit-interval", "5"})), 0) << output();
  const std::filesystem::path manifest = folder_ / "run/run_manifest.json";
  const std::string load = (folder_ / "run").string(), kept = read_file(manifest);
  write_file_atomically(manifest, read_file(folder_ / "other/run_manifest.json"));
  EXPECT_EQ(inspect({"--load", load, "--iteration", "3"}), 3);
  EXPECT_THAT(output(), HasSubstr("seed is 1234 in the checkpoint and 7 in the manifest"));
  // Of a list of datasets only the first difference is told.
  auto changed = nlohmann::json::parse(kept);
  const int64_t tokens = changed.at("datasets").at(0).at("tokens");
  changed["datasets"][0]["tokens"] = tokens + 1;
  write_file_atomically(manifest, changed.dump());
  EXPECT_EQ(inspect({"--load", load, "--iteration", "3"}), 3);
  EXPECT_THAT(output(), HasSubstr("the list of datasets at /0/tokens is " + std::to_string(tokens) +
                                  " in the checkpoint and " + std::to_string(tokens + 1) +
                                  " in the manifest"));
  std::filesystem::remove(manifest);
  EXPECT_EQ(inspect({"--load", load, "--iteration", "3"}), 3);
  EXPECT_THAT(output(), HasSubstr("give the run's folder with --run"));
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

// After an evaluation of a set that has begun again as many samples are consumed as before one that was cut short in
// a run whose set has not.
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
  auto middle = nlohmann::json::parse(kept);
  middle.at("earlier").at(0)["arguments"]["global_batch_size"] = 4;
  for (const std::string& wrong : {read_file(folder_ / "other/run_manifest.json"), middle.dump()}) {
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

TEST_F(InspectRun, RefusesAnOrderThatItDoesNotKnow) {
  ASSERT_EQ(run(arguments("run", 6)), 0) << output();
  const std::filesystem::path path = folder_ / "run/run_manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(read_file(path));
  manifest["arguments"]["sample_order"] = "later";
  write_file_atomically(path, manifest.dump());
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

TEST_F(InspectRun, RefusesADatasetThatWasReplaced) {
  ASSERT_EQ(run(arguments("run", 6)), 0) << output();
  for (const char* suffix : {".bin", ".idx"}) std::filesystem::remove(prefix_ + suffix);
  write_tiny_dataset(prefix_, 301);
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("was replaced or changed: the run read 300 documents"));
}

}  // namespace
}  // namespace weft
