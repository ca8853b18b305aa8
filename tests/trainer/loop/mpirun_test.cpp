// Ranks that mpirun starts: they train what one process trains, and end together with a reason,
// whatever happens to one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/trainer/mpirun_ranks.h"

namespace weft {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

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
  EXPECT_EQ(stop_second_of_two("stopped", arguments("stopped", 1'000'000)), 12) << output();
  EXPECT_THAT(output(), HasSubstr("error: rank 1 ("));
  EXPECT_THAT(output(), AnyOf(HasSubstr("was silent for 3 s"), HasSubstr("did not arrive at")));
  EXPECT_EQ(failure("stopped").at("exit_code"), 12);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "stopped/operations.rank_00000.txt"));
}

// MPI waits for it for ever, at its start and where the ranks meet first.
TEST_F(Ranks, ARankThatIsStoppedWhileMpiStartsIsALostPeer) {
  const std::string program = std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train";
  const Arguments all = arguments("run", 30, {"--distributed-timeout-minutes", "0.1"});
  for (const std::string place : {"mpi_starts", "mpi_has_started"}) {
    Arguments command = with({"/usr/bin/env", "mpirun", "-n", "1", program}, all);
    command = with(command, {":", "-n", "1", "/usr/bin/env", "WEFT_CRASH_AT=" + place + ":1:stop"});
    command.push_back(program);
    EXPECT_EQ(wait(start_program(with(command, all))), 13) << place << "\n" << output();
    EXPECT_THAT(output(), testing::HasSubstr("the ranks have not all started MPI within 6 s "
                                             "(--distributed-timeout-minutes)"));
  }
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
