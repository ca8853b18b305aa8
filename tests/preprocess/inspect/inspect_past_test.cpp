// weft-data inspect samples --run knows the past of a run that was resumed, went back to an older
// checkpoint, returned to the way that it had left, or came from another folder.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "tests/preprocess/inspect/inspect_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

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

// A run goes back to an older checkpoint with another seed and batch size, and later returns to a
// checkpoint of the way that it had left.
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

// Without the manifest nothing tells whether the logs are those of the way that the checkpoint is
// of.
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

// Nothing else would contradict another seed.
TEST_F(InspectRun, RefusesAChangedManifestOfARun) {
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "5"})), 0) << output();
  ASSERT_EQ(inspect_run("run", {"--iteration", "3"}), 0) << output();
  const auto expected = samples();
  const std::filesystem::path path = folder_ / "run" / "run_manifest.json";
  std::string manifest = read_file(path);
  manifest.replace(manifest.rfind("\"seed\": 1234"), 12, "\"seed\": 1235");
  write_file_atomically(path, manifest);
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}),
            static_cast<int>(ExitCode::kChecksumMismatch));
  EXPECT_THAT(output(), HasSubstr(path.string() +
                                  ": the manifest was changed since it was written (checksum "));
  // The checkpoint tells what the manifest told, and the run goes on from it.
  EXPECT_EQ(inspect({"--load", (folder_ / "run").string(), "--iteration", "3"}), 0) << output();
  EXPECT_EQ(samples(), expected);
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("it is kept as metrics.jsonl.before_0000005"));
  EXPECT_EQ(inspect_run("run", {"--iteration", "3"}), 0) << output();
  EXPECT_EQ(samples(), expected);
}

TEST_F(InspectRun, RefusesWhatTheFolderDoesNotTell) {
  ASSERT_EQ(run(arguments("first", 30, {"--exit-interval", "5"})), 0) << output();
  Arguments second = arguments("second", 30, {"--exit-interval", "10"});
  for (size_t i = 0; i + 1 < second.size(); ++i) {
    if (second[i] == "--load") second[i + 1] = (folder_ / "first").string();
  }
  ASSERT_EQ(run(second), 0) << output();
  // As if nothing had told what led to its first iteration.
  edit_run_manifest("second", [](nlohmann::ordered_json& manifest) {
    manifest["earlier"] = nlohmann::json::array();
  });
  EXPECT_EQ(inspect_run("second", {"--iteration", "6"}), 0) << output();
  EXPECT_EQ(samples().at(0).at("sample"), 40);
  EXPECT_EQ(inspect_run("second", {"--iteration", "5"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of iterations from 6 on"));
  EXPECT_EQ(inspect_run("second", {"--sample-range", "39", "41"}),
            static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("tells of samples from 40 on"));
}

}  // namespace
}  // namespace weft
