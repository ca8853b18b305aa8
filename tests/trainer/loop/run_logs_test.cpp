// Logs belong to the run whose id they carry: no other run empties, cuts or replaces them.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class RunLogs : public Training {
 protected:
  using Training::with;
  // Returns the arguments with another value of a flag that is among them.
  static Arguments with(Arguments all, const std::string& flag, const std::string& value) {
    *(std::find(all.begin(), all.end(), flag) + 1) = value;
    return all;
  }
  static Arguments without_saving(Arguments all) {
    const auto found = std::find(all.begin(), all.end(), "--save");
    all.erase(found, found + 2);
    const auto interval = std::find(all.begin(), all.end(), "--save-interval");
    all.erase(interval, interval + 2);
    return all;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Returns the files of a folder below the tests' one, and what is in them.
  std::map<std::string, std::string> files(const std::string& name) const {
    std::map<std::string, std::string> contents;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / name)) {
      if (entry.is_regular_file())
        contents[entry.path().filename().string()] = read_file(entry.path());
    }
    return contents;
  }
};

TEST_F(RunLogs, AnotherRunLeavesTheEventsInItsFolderAlone) {
  ASSERT_EQ(run(arguments("first", 8)), 0) << output();
  const auto before = files("first/tb");
  ASSERT_EQ(before.size(), 1U);
  ASSERT_EQ(run(with(arguments("second", 5), "--tensorboard-dir", path("first/tb"))), 0);
  // One that goes on from the first one's checkpoint elsewhere is another run, too.
  Arguments fork = with(with(arguments("fork", 8), "--load", path("first")), {"--ckpt-step", "5"});
  ASSERT_EQ(run(with(fork, "--tensorboard-dir", path("first/tb"))), 0) << output();
  const auto after = files("first/tb");
  EXPECT_EQ(after.size(), 3U);
  EXPECT_EQ(after.at(before.begin()->first), before.begin()->second);
}

TEST_F(RunLogs, ARunThatGoesBackCutsItsOwnEventsAndSaysSo) {
  ASSERT_EQ(run(arguments("run", 8)), 0) << output();
  const auto before = files("run/tb");
  ASSERT_EQ(run(arguments("run", 8, {"--ckpt-step", "5", "--exit-interval", "6"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("events of this run after iteration 5 are dropped"));
  EXPECT_THAT(output(), HasSubstr("what this run had logged after iteration 5 is dropped"));
  EXPECT_THAT(output(), HasSubstr("the losses of 24 samples"));
  const std::string cut = files("run/tb").at(before.begin()->first);
  EXPECT_LT(cut.size(), before.begin()->second.size());
  EXPECT_TRUE(before.begin()->second.starts_with(cut));
}

TEST_F(RunLogs, AnEvaluationOfAnOlderCheckpointDropsNothing) {
  ASSERT_EQ(run(arguments("run", 8)), 0) << output();
  const auto before = files("run"), events = files("run/tb");
  ASSERT_EQ(run(arguments("run", 8, {"--skip-train", "--ckpt-step", "5"})), 0) << output();
  EXPECT_THAT(output(), Not(HasSubstr("another way")));
  const auto after = files("run");
  for (const char* name : {"run_manifest.json", "sample_losses.bin"})
    EXPECT_EQ(after.at(name), before.at(name)) << name;
  EXPECT_TRUE(after.at("metrics.jsonl").starts_with(before.at("metrics.jsonl")));
  EXPECT_EQ(metrics("run").back().at("iteration"), 5);
  EXPECT_EQ(files("run/tb").at(events.begin()->first), events.begin()->second);
}

TEST_F(RunLogs, AnEvaluationLeavesALivingRunItsEvents) {
  const pid_t living = start(arguments("run", 100'000));
  wait_for_iteration("run", 7, living);
  const fs::path events = folder_ / "run/tb" / files("run/tb").begin()->first;
  Arguments evaluation =
      with(without_saving(arguments("run", 100'000)), {"--skip-train", "--ckpt-step", "5"});
  EXPECT_EQ(run(evaluation), 0);
  const auto size_bytes = fs::file_size(events);
  wait_for_iteration("run", metrics("run").back().at("iteration").get<int64_t>() + 3, living);
  EXPECT_GT(fs::file_size(events), size_bytes);
  kill(living, SIGKILL);
  wait(living);
}

TEST_F(RunLogs, ANewRunKeepsTheLogsOfAnotherUnderOtherNames) {
  ASSERT_EQ(run(arguments("first", 8)), 0) << output();
  const auto before = files("first");
  Arguments second = with(without_saving(with(arguments("second", 5), "--load", path("first"))),
                          {"--finetune", "--run-dir", path("first")});
  ASSERT_EQ(run(second), 0) << output();
  EXPECT_THAT(output(), HasSubstr("it is kept as metrics.jsonl.before_0000000"));
  const auto after = files("first");
  for (const std::string name : {"metrics.jsonl", "run_manifest.json", "sample_losses.bin"})
    EXPECT_EQ(after.at(name + ".before_0000000"), before.at(name)) << name;
  EXPECT_EQ(metrics("first").front().at("iteration"), 1);
}

TEST_F(RunLogs, AnEvaluationIsRefusedWhereTheLogsAreOfAnotherRun) {
  ASSERT_EQ(run(arguments("first", 8)), 0) << output();
  ASSERT_EQ(run(arguments("second", 5)), 0) << output();
  const auto before = files("first");
  Arguments evaluation = arguments("second", 5, {"--skip-train", "--run-dir", path("first")});
  EXPECT_EQ(run(evaluation), 2) << output();
  EXPECT_THAT(output(), HasSubstr("of another run, to which this evaluation (--skip-train) adds"));
  evaluation = with(without_saving(evaluation), "--load", path("none"));
  EXPECT_EQ(run(evaluation), 2) << output();
  auto after = files("first");
  after.erase("failure.json");
  EXPECT_EQ(after, before);

  // One that has a folder of its own may come back to it.
  evaluation = with(evaluation, "--run-dir", path("evaluations"));
  ASSERT_EQ(run(evaluation), 0) << output();
  ASSERT_EQ(run(evaluation), 0) << output();
  EXPECT_EQ(metrics("evaluations").size(), 4U);
}

}  // namespace
}  // namespace weft
