// Runs that save in the step and in the background (--async-save): interrupted, killed, out of
// space, rolled back.
#include <gmock/gmock.h>
#include <signal.h>

#include <map>

#include "tests/trainer/mpirun_ranks.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Saving : public Ranks {
 protected:
  void SetUp() override { Training::SetUp(); }
  void TearDown() override { unsetenv("WEFT_CRASH_AT"); }

  static Arguments modes(bool async) { return async ? Arguments{"--async-save"} : Arguments{}; }
  // The bytes of all state files of a run, by folder and name.
  std::map<std::string, std::string> state_files(const std::string& run) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run)) {
      if (entry.path().extension() == ".safetensors")
        files[fs::relative(entry.path(), folder_ / run).string()] = read_file(entry.path());
    }
    return files;
  }
  // All manifests of a run, without arguments and times of the run itself.
  std::map<std::string, std::string> manifests(const std::string& run) const {
    std::map<std::string, std::string> manifests;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run)) {
      if (entry.path().filename() != "manifest.json") continue;
      auto json = nlohmann::json::parse(read_file(entry.path()));
      json.erase("checksum");
      json["info"].erase("arguments");
      json["info"].erase("run_segments");
      manifests[fs::relative(entry.path(), folder_ / run).string()] = json.dump();
    }
    return manifests;
  }
  fs::path gate() const { return folder_ / "gate"; }
  // Holds up the thread that writes the first checkpoint until open_gate().
  void close_gate() const {
    setenv("WEFT_CRASH_AT", ("checkpoint_in_background:1:" + gate().string()).c_str(), 1);
  }
  void wait_for_writer() const {
    for (int i = 0; i < 60'000; ++i) {
      if (fs::exists(gate().string() + ".waiting")) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "no checkpoint was begun:\n" << output();
  }
  void open_gate() const { std::ofstream(gate()).close(); }
  void wait_for_output(const std::string& text) const {
    for (int i = 0; i < 60'000; ++i) {
      if (fs::exists(folder_ / "out") && output().find(text) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << text << " never came:\n" << output();
  }
};

TEST_F(Saving, InTheBackgroundAndInTheStepGiveTheSameFiles) {
  ASSERT_EQ(run(arguments("step")), 0) << output();
  ASSERT_EQ(run(arguments("background", 30, {"--async-save"})), 0) << output();
  EXPECT_EQ(trajectory("background"), trajectory("step"));
  EXPECT_EQ(state_files("background"), state_files("step"));
  EXPECT_EQ(manifests("background"), manifests("step"));
  EXPECT_EQ(state_files("step").size(), 6U);
  EXPECT_EQ(tracker("background"), "30");
  EXPECT_EQ(count(output(), "  scheduled an async checkpoint save at iteration "), 6U);
  EXPECT_EQ(count(output(), "  successfully saved checkpoint at iteration "), 6U);
  EXPECT_THAT(output(), HasSubstr("snapshot of --async-save"));
}

TEST_F(Saving, TrainingGoesOnWhileACheckpointIsWritten) {
  close_gate();
  const pid_t child = start(arguments("run", 40, {"--async-save", "--save-interval", "20"}));
  wait_for_iteration("run", 35, child);
  wait_for_writer();
  EXPECT_FALSE(fs::exists(folder_ / "run/latest_checkpointed_iteration.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "run/iter_0000020"));
  open_gate();
  EXPECT_EQ(wait(child), 0) << output();
  EXPECT_EQ(tracker("run"), "40");
  EXPECT_TRUE(fs::exists(folder_ / "run/iter_0000020/manifest.json"));
}

TEST_F(Saving, ASecondSaveWaitsForTheFirstAndSaysSo) {
  close_gate();
  const pid_t child = start(arguments("run", 12, {"--async-save"}));
  wait_for_output("WARNING: Starting a checkpoint save before previous has finished.");
  EXPECT_THAT(output(), Not(HasSubstr(" iteration       11/")));
  open_gate();
  EXPECT_EQ(wait(child), 0) << output();
  EXPECT_EQ(tracker("run"), "12");
  EXPECT_EQ(count(output(), "  successfully saved checkpoint at iteration "), 3U);
}

TEST_F(Saving, AStopFinishesTheSaveThatRuns) {
  ASSERT_EQ(run(arguments("undisturbed", 60)), 0) << output();
  close_gate();
  const Arguments once = {"--async-save", "--save-interval", "1000", "--exit-interval", "7"};
  pid_t child = start(arguments("interval", 60, once));
  wait_for_output("  scheduled an async checkpoint save at iteration       7");
  open_gate();
  EXPECT_EQ(wait(child), 0) << output();
  EXPECT_EQ(tracker("interval"), "7");

  fs::remove(gate());
  const Arguments rarely = {"--async-save", "--save-interval", "1000"};
  child = start(arguments("signal", 60, rarely));
  wait_for_iteration("signal", 5, child);
  kill(child, SIGTERM);
  wait_for_output("  scheduled an async checkpoint save at iteration ");
  open_gate();
  EXPECT_EQ(wait(child), 10) << output();
  unsetenv("WEFT_CRASH_AT");
  for (const char* name : {"interval", "signal"}) {
    ASSERT_EQ(run(arguments(name, 60, rarely)), 0) << output();
    EXPECT_EQ(trajectory(name), trajectory("undisturbed")) << name;
  }
}

TEST_F(Saving, KilledAtAnyMomentItEndsWithTheSameBits) {
  ASSERT_EQ(run(arguments("undisturbed", 60)), 0) << output();
  for (const char* point :
       {"checkpoint_in_background:2", "checkpoint_file_begun:3", "checkpoint_file_written:2",
        "checkpoint_manifest_written:2", "checkpoint_renamed:3", "checkpoint_renamed:1"}) {
    setenv("WEFT_CRASH_AT", point, 1);
    EXPECT_EQ(run(arguments("killed", 60, {"--async-save"})), 128 + SIGKILL) << point << "\n"
                                                                             << output();
  }
  unsetenv("WEFT_CRASH_AT");
  ASSERT_EQ(run(arguments("killed", 60, {"--async-save"})), 0) << output();
  EXPECT_EQ(trajectory("killed"), trajectory("undisturbed"));
}

TEST_F(Saving, ADiskThatFillsUpEndsTheRunWithItsCode) {
  ASSERT_EQ(run(arguments("undisturbed", 12)), 0) << output();
  for (const bool async : {false, true}) {
    const std::string name = async ? "background" : "step";
    Arguments command{"/bin/bash", "-c", "ulimit -f 64; exec \"$@\"", "bash",
                      std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train"};
    const Arguments all = arguments(name, 12, modes(async));
    EXPECT_EQ(wait(start_program(with(command, all))), 5) << output();
    EXPECT_THAT(output(), HasSubstr("state_00000.safetensors")) << "the file is named";
    EXPECT_FALSE(fs::exists(folder_ / name / "latest_checkpointed_iteration.txt"));
    EXPECT_FALSE(fs::exists(folder_ / name / "iter_0000005"));
    EXPECT_FALSE(fs::exists(folder_ / name / "iter_0000005.part")) << "it would fill the disk";
    ASSERT_EQ(run(all), 0) << output();
    EXPECT_EQ(trajectory(name), trajectory("undisturbed"));
  }
}

TEST_F(Saving, ARunGoesBackWhereTheTrackerIsEdited) {
  ASSERT_EQ(run(arguments("run")), 0) << output();
  const auto lines = trajectory("run");
  const auto files = state_files("run");
  std::ofstream(folder_ / "run/latest_checkpointed_iteration.txt") << "10";
  ASSERT_EQ(run(arguments("run", 30, {"--async-save"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("successfully loaded checkpoint from"));
  EXPECT_EQ(count(output(), " iteration       11/"), 1U) << output();
  EXPECT_EQ(trajectory("run"), lines);
  EXPECT_EQ(state_files("run"), files) << "later ones were replaced by equal ones";
}

TEST_F(Saving, ADryRunShowsTheSnapshot) {
  EXPECT_EQ(run(arguments("run", 5, {"--async-save", "--dry-run"})), 0) << output();
  EXPECT_THAT(output(), testing::ContainsRegex(
                            "staging of checkpoints [0-9.]+, snapshot of --async-save [0-9.]+,"));
}

// --- several ranks ---

class SavingRanks : public Saving {
 protected:
  void SetUp() override { Ranks::SetUp(); }
};

TEST_F(SavingRanks, RanksGiveTheSameFilesEitherWay) {
  const Arguments sharded = {"--use-distributed-optimizer"};
  ASSERT_EQ(run_ranks(2, arguments("step", 30, sharded)), 0) << output();
  ASSERT_EQ(run_ranks(2, arguments("background", 30, with(sharded, {"--async-save"}))), 0)
      << output();
  EXPECT_EQ(trajectory("background"), trajectory("step"));
  EXPECT_EQ(state_files("background"), state_files("step"));
  EXPECT_EQ(manifests("background"), manifests("step"));
  EXPECT_EQ(state_files("step").size(), 12U);

  std::ofstream(folder_ / "background/latest_checkpointed_iteration.txt") << "15\n";
  ASSERT_EQ(run_ranks(2, arguments("background", 30, with(sharded, {"--async-save"}))), 0)
      << output();
  EXPECT_EQ(trajectory("background"), trajectory("step")) << "gone back by the tracker";
  EXPECT_EQ(state_files("background"), state_files("step"));
}

TEST_F(SavingRanks, RanksThatDieInAnyPhaseLeaveAWholeCheckpoint) {
  ASSERT_EQ(run_ranks(2, arguments("straight")), 0) << output();
  for (const bool async : {false, true}) {
    const std::string name = async ? "background" : "step";
    for (const char* point : {"checkpoint_file_begun:2", "checkpoint_file_written:1",
                              "checkpoint_manifest_written:2", "checkpoint_renamed:1"}) {
      setenv("WEFT_CRASH_AT", point, 1);
      EXPECT_NE(run_ranks(2, arguments(name, 30, modes(async))), 0) << point << output();
    }
    unsetenv("WEFT_CRASH_AT");
    ASSERT_EQ(run_ranks(2, arguments(name, 30, modes(async))), 0) << output();
    EXPECT_EQ(trajectory(name), trajectory("straight")) << name;
  }
}

TEST_F(SavingRanks, ADiskThatIsFullOnOneRankEndsAllWithItsCode) {
  // The limit of a file's size stands for the full disk; MPI's shared memory is a file, too.
  setenv("OMPI_MCA_btl", "self,tcp", 1);
  ASSERT_EQ(run_ranks(2, arguments("straight", 12)), 0) << output();
  const std::string program = std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train";
  for (const bool async : {false, true}) {
    const std::string name = async ? "background" : "step";
    const Arguments all = arguments(name, 12, modes(async));
    Arguments command = with({"/usr/bin/env", "mpirun", "-n", "1", program}, all);
    command = with(
        command, {":", "-n", "1", "/bin/bash", "-c", "ulimit -f 64; exec \"$@\"", "bash", program});
    EXPECT_EQ(wait(start_program(with(command, all))), 5) << output();
    EXPECT_EQ(count(output(), "error: rank 1 ("), 1U) << output();
    EXPECT_EQ(failure(name).at("exit_code"), 5);
    EXPECT_FALSE(fs::exists(folder_ / name / "latest_checkpointed_iteration.txt"));
    EXPECT_FALSE(fs::exists(folder_ / name / "iter_0000005"));
    ASSERT_EQ(run_ranks(2, all), 0) << output();
    EXPECT_EQ(trajectory(name), trajectory("straight"));
  }
  setenv("OMPI_MCA_btl", "self,vader,tcp", 1);
}

// A rank that fails has a thread that never ends, as a device does that waits for other ranks. The
// others must hear of the failure before anything waits for that thread.
TEST_F(SavingRanks, AFailureIsToldBeforeTheRankTakesItselfApart) {
  close_gate();
  const Arguments failing = make_second_rank_fail_at(9);
  EXPECT_EQ(run_ranks(2, arguments("failed", 12,
                                   with(failing, {"--async-save", "--distributed-timeout-minutes",
                                                  "0.2", "--save-interval", "6"}))),
            3)
      << output();
  EXPECT_EQ(count(output(), "error: rank 1 ("), 1U) << output();
  EXPECT_THAT(output(), HasSubstr("sample 66, position 8 (document 13) holds token id 65535"));
  EXPECT_EQ(failure("failed").at("exit_code"), 3);
  EXPECT_EQ(metrics("failed").back().at("iteration"), 8);
}

// Weights of any run start another one, whatever optimizer its ranks shared.
TEST_F(SavingRanks, RanksFinetuneAndLoadWithoutTheOptimizer) {
  const Arguments sharded = {"--use-distributed-optimizer"};
  ASSERT_EQ(run_ranks(2, arguments("source", 10, sharded)), 0) << output();
  for (const char* flag : {"--finetune", "--no-load-optim"}) {
    std::map<std::string, std::vector<std::string>> lines;
    for (const int num_ranks : {1, 2}) {
      const std::string name = std::string("to") + flag + std::to_string(num_ranks);
      Arguments all = arguments(name, 20, {flag, "--override-lr-scheduler"});
      *(std::find(all.begin(), all.end(), "--load") + 1) = (folder_ / "source").string();
      ASSERT_EQ(num_ranks == 1 ? run(all) : run_ranks(num_ranks, all), 0) << output();
      EXPECT_THAT(output(), HasSubstr(" > weights only: iteration "));
      const int64_t first = metrics(name).front().at("iteration");
      EXPECT_EQ(first, std::string(flag) == "--finetune" ? 1 : 11);
    }
    expect_near(std::string("to") + flag + "2", std::string("to") + flag + "1");
  }
}

// The checkpoint's moments have the type that its run kept them in, whichever that of the run
// before was.
TEST_F(SavingRanks, RanksConvertAdamsMomentsWhereTheirTypeChanges) {
  const Arguments sharded = {"--bf16", "--use-distributed-optimizer", "--async-save"};
  const auto go_on_to = [&](const std::string& last, const Arguments& more) {
    const Arguments all = with(sharded, {"--exit-interval", last});
    EXPECT_EQ(run_ranks(2, arguments("run", 30, with(all, more))), 0) << output();
  };
  const auto type_of_moments = [this](int64_t iteration) {
    const std::string file = "iter_000000" + std::to_string(iteration) + "/state_00000.safetensors";
    const std::string bytes = read_file(folder_ / "run" / file);
    const size_t moment = bytes.find("\"optimizer/exp_avg_sq/"),
                 type = bytes.find("\"dtype\":\"", moment) + 9;
    return bytes.substr(type, bytes.find('"', type) - type);
  };
  const auto converts = HasSubstr("Adam's moments are converted, to bf16 by rounding");
  go_on_to("3", {"--save-interval", "3"});
  EXPECT_EQ(type_of_moments(3), "F32");
  go_on_to("6", {"--save-interval", "3", "--bf16-optimizer-state"});
  EXPECT_THAT(output(), converts);
  EXPECT_EQ(type_of_moments(6), "BF16");
  go_on_to("9", {"--save-interval", "3"});
  EXPECT_THAT(output(), converts);
  EXPECT_EQ(type_of_moments(9), "F32");
  ASSERT_EQ(run_ranks(2, arguments("undisturbed", 30, with(sharded, {"--exit-interval", "9"}))), 0)
      << output();
  expect_near("run", "undisturbed", 1e-2);
}

}  // namespace
}  // namespace weft
