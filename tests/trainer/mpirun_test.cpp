// Ranks that mpirun starts: they train what one process trains, and end together with a reason,
// whatever happens to one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class Ranks : public Training {
 protected:
  static void SetUpTestSuite() {
    // This machine only: neither ssh nor a network is asked for, ranks may outnumber processors.
    for (const auto& [name, value] : {std::pair{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                      {"OMPI_MCA_plm", "isolated"},
                                      {"OMPI_MCA_oob_tcp_if_include", "lo"},
                                      {"OMPI_MCA_btl", "self,vader,tcp"},
                                      {"OMPI_MCA_btl_tcp_if_include", "lo"},
                                      {"OMPI_MCA_pml", "ob1"},
                                      {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                      {"OMP_NUM_THREADS", "1"}}) {
      setenv(name, value, 1);
    }
    has_mpirun_ = std::system("timeout 60 mpirun -n 2 true >/dev/null 2>&1 </dev/null") == 0;
  }
  void SetUp() override {
    Training::SetUp();
    if (!has_mpirun_) GTEST_SKIP() << "mpirun (openmpi-bin) cannot start two processes here";
  }

  static Arguments with(Arguments all, const Arguments& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Starts ranks with the same arguments; the last one gets `of_last` too.
  pid_t start_ranks(int num_ranks, const Arguments& all, const Arguments& of_last = {}) {
    const std::string program = std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train";
    Arguments command{"/usr/bin/env", "mpirun", "-n", std::to_string(num_ranks)};
    if (!of_last.empty()) command.back() = std::to_string(num_ranks - 1);
    command.push_back(program);
    command = with(command, all);
    if (!of_last.empty()) {
      command = with(with(command, {":", "-n", "1", program}), with(all, of_last));
    }
    return start_program(command);
  }
  int run_ranks(int num_ranks, const Arguments& all, const Arguments& of_last = {}) {
    return wait(start_ranks(num_ranks, all, of_last));
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    for (const auto& line : metrics(run)) {
      if (line.contains("lm_loss")) losses.push_back(line.at("lm_loss"));
    }
    return losses;
  }
  void expect_near(const std::string& run, const std::string& expected) const {
    const std::vector<double> a = losses(run), b = losses(expected);
    ASSERT_EQ(a.size(), b.size()) << output();
    ASSERT_FALSE(b.empty());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * b[i]) << run << " " << i;
  }
  // The processes of the ranks, which mpirun has started itself; ascending.
  static std::vector<pid_t> ranks_of(pid_t mpirun) {
    std::vector<pid_t> ranks;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream stat(entry.path() / "stat");
      std::string text;
      std::getline(stat, text);
      const size_t name_end = text.rfind(')');
      if (name_end == std::string::npos || text.find("(weft-train)") == std::string::npos) continue;
      char state = 0;
      long parent = 0;
      std::istringstream(text.substr(name_end + 1)) >> state >> parent;
      if (parent == mpirun) ranks.push_back(std::stoi(entry.path().filename()));
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  static bool is_running(pid_t process) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    return std::getline(stat, text) &&
           text.substr(text.rfind(')')).find(" Z ") == std::string::npos;
  }
  static size_t count(const std::string& text, const std::string& word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  }
  nlohmann::json failure(const std::string& run) const {
    return nlohmann::json::parse(read_file(folder_ / (run + "/failure.json")));
  }

  static inline bool has_mpirun_ = false;
};

TEST_F(Ranks, TrainWhatOneProcessTrains) {
  ASSERT_EQ(run(arguments("one")), 0) << output();
  ASSERT_EQ(run_ranks(2, arguments("two")), 0) << output();
  EXPECT_THAT(output(), HasSubstr("using world size: 2, data-parallel-size: 2"));
  EXPECT_EQ(count(output(), "using world size"), 1U) << "one rank prints";
  EXPECT_EQ(count(output(), " iteration        7/"), 1U);
  EXPECT_THAT(output(), HasSubstr("  rank  host"));
  expect_near("two", "one");

  ASSERT_EQ(run_ranks(2, arguments("again")), 0) << output();
  EXPECT_EQ(trajectory("again"), trajectory("two")) << "one topology, equal bits";

  ASSERT_EQ(run_ranks(4, arguments("four")), 0) << output();
  expect_near("four", "one");
  ASSERT_EQ(run_ranks(4, arguments("micro", 30, {"--micro-batch-size", "1"})), 0) << output();
  expect_near("micro", "one");
}

TEST_F(Ranks, GoOnFromACheckpointOnAnyNumberOfRanks) {
  ASSERT_EQ(run_ranks(2, arguments("straight")), 0) << output();
  ASSERT_EQ(run_ranks(2, arguments("broken", 30, {"--exit-interval", "10"})), 0) << output();
  EXPECT_EQ(tracker("broken"), "10");
  std::filesystem::copy(folder_ / "broken", folder_ / "alone",
                        std::filesystem::copy_options::recursive);
  ASSERT_EQ(run_ranks(2, arguments("broken")), 0) << output();
  EXPECT_EQ(trajectory("broken"), trajectory("straight"));
  ASSERT_EQ(run(arguments("alone")), 0) << output();
  expect_near("alone", "straight");
}

TEST_F(Ranks, ShardsOfTheOptimizerAreReadByAnyNumberOfRanks) {
  const Arguments sharded = {"--use-distributed-optimizer", "--keep-last", "1"};
  ASSERT_EQ(run_ranks(2, arguments("straight", 30, sharded)), 0) << output();
  ASSERT_EQ(run_ranks(2, arguments("broken", 30, with(sharded, {"--exit-interval", "10"}))), 0)
      << output();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "broken/iter_0000010/state_00001.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "broken/iter_0000005"));
  for (const char* copy : {"alone", "four"}) {
    std::filesystem::copy(folder_ / "broken", folder_ / copy,
                          std::filesystem::copy_options::recursive);
  }
  ASSERT_EQ(run_ranks(2, arguments("broken", 30, sharded)), 0) << output();
  EXPECT_EQ(trajectory("broken"), trajectory("straight"));
  ASSERT_EQ(run(arguments("alone")), 0) << output();
  expect_near("alone", "straight");
  ASSERT_EQ(run_ranks(4, arguments("four", 30, {"--micro-batch-size", "1"})), 0) << output();
  expect_near("four", "straight");
}

TEST_F(Ranks, AKilledRankEndsAllWithinTenSecondsAndIsNamed) {
  const pid_t mpirun = start_ranks(
      3, with(arguments("killed", 1'000'000), {"--global-batch-size", "12", "--eval-iters", "0"}));
  wait_for_iteration("killed", 3, mpirun);
  const std::vector<pid_t> ranks = ranks_of(mpirun);
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks[1], SIGKILL);
  const auto start = Clock::now();
  EXPECT_NE(wait(mpirun), 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  const std::string line =
      ", process " + std::to_string(ranks[1]) + "): its process has ended without a word";
  EXPECT_EQ(count(output(), line), 1U) << output();
  EXPECT_EQ(count(output(), "error: "), 1U) << output();
  EXPECT_EQ(failure("killed").at("exit_code"), 13);
  // mpirun does not wait for the processes that it kills.
  const auto is_any_running = [&ranks] {
    return std::any_of(ranks.begin(), ranks.end(), is_running);
  };
  while (is_any_running() && Clock::now() - start < std::chrono::seconds(10)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const pid_t rank : ranks) EXPECT_FALSE(is_running(rank)) << rank;
}

TEST_F(Ranks, AStoppedRankIsAHang) {
  const pid_t mpirun =
      start_ranks(2, with(arguments("stopped", 1'000'000),
                          {"--eval-iters", "0", "--distributed-timeout-minutes", "0.05"}));
  wait_for_iteration("stopped", 3, mpirun);
  const std::vector<pid_t> ranks = ranks_of(mpirun);
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks[1], SIGSTOP);
  EXPECT_EQ(wait(mpirun), 12) << output();
  EXPECT_THAT(output(), HasSubstr("error: rank 1 ("));
  EXPECT_THAT(output(), AnyOf(HasSubstr("was silent for 3 s"), HasSubstr("did not arrive at")));
  EXPECT_EQ(failure("stopped").at("exit_code"), 12);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "stopped/operations.rank_00000.txt"));
  kill(ranks[1], SIGKILL);  // mpirun's own signals may not reach a stopped process
}

TEST_F(Ranks, DifferencesBetweenRanksAreNamedBeforeTheFirstStep) {
  EXPECT_EQ(run_ranks(3, with(arguments("differ"), {"--global-batch-size", "12"}),
                      {"--seed", "7", "--lr", "4e-3"}),
            14)
      << output();
  EXPECT_THAT(output(), HasSubstr("--seed is 7 instead of 1234"));
  EXPECT_THAT(output(), HasSubstr("--lr is 0.004 instead of 0.005"));
  EXPECT_THAT(output(), HasSubstr("rank 2 ("));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "differ/metrics.jsonl"));
}

TEST_F(Ranks, ProblemsOfTheCommandLineArePrintedOnce) {
  EXPECT_EQ(run_ranks(3, arguments("usage")), 2);
  EXPECT_EQ(count(output(),
                  "error: --global-batch-size 8 is not a multiple of --micro-batch-size "
                  "2 times data-parallel size 3"),
            1U)
      << output();
  EXPECT_EQ(run_ranks(2, arguments("usage"), {"--lr", "x"}), 2);
  EXPECT_THAT(output(), HasSubstr("error: rank 1 ("));
  EXPECT_THAT(output(), HasSubstr("--lr x: is not a number"));
}

TEST_F(Ranks, AFailureOfOneIsToldWithItsName) {
  EXPECT_EQ(run_ranks(2, arguments("missing", 30, {"--ckpt-step", "77"})), 3) << output();
  EXPECT_EQ(count(output(), "error: rank "), 1U) << output();
}

TEST_F(Ranks, ASignalIsSavedByAllAndResumesToTheBit) {
  ASSERT_EQ(run_ranks(2, arguments("straight", 60)), 0) << output();
  const pid_t mpirun = start_ranks(2, arguments("stopped", 60, {"--save-interval", "1000"}));
  wait_for_iteration("stopped", 5, mpirun);
  for (const pid_t rank : ranks_of(mpirun)) kill(rank, SIGUSR1);
  EXPECT_EQ(wait(mpirun), 10) << output();
  ASSERT_EQ(run_ranks(2, arguments("stopped", 60, {"--save-interval", "1000"})), 0) << output();
  EXPECT_EQ(trajectory("stopped"), trajectory("straight"));
}

TEST_F(Training, ProcessesThatCannotFindEachOtherAreRefused) {
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  EXPECT_EQ(run(arguments("torchrun")), 2);
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  EXPECT_THAT(output(), HasSubstr("start the ranks with srun --mpi=pmix, or with mpirun"));
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_EQ(run(arguments("srun")), 2);
  unsetenv("SLURM_STEP_ID");
  unsetenv("SLURM_STEP_NUM_TASKS");
  EXPECT_THAT(output(), HasSubstr("srun has started several tasks that do not know each other"));
}

}  // namespace
}  // namespace weft
