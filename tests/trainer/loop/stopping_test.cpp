// A run that is stopped, by a signal, a limit, a failing call or its own numbers, leaves what it
// can go on from.
#include <gmock/gmock.h>

#include <csignal>
#include <random>
#include <tuple>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

// A call that fails ends a run with code 5, but for those of its event files, which are a warning.
void expect_full_disk(int code, const std::string& output) {
  if (code == 0) {
    EXPECT_THAT(output, HasSubstr("WARNING: --tensorboard-dir "));
  } else {
    EXPECT_EQ(code, 5) << output;
    EXPECT_THAT(output, HasSubstr("error: "));
  }
}

TEST_F(Training, NoFailingCallOfTheStartIsPassedOver) {
  for (int i = 1; i <= 30; ++i) {
    setenv("WEFT_IO_FAIL_AT", (std::to_string(i) + ":28").c_str(), 1);  // ENOSPC
    const int code = run(arguments("fault" + std::to_string(i), 12));
    unsetenv("WEFT_IO_FAIL_AT");
    expect_full_disk(code, output());
  }
}

TEST_F(Training, AFailingCallEndsTheRunAndTheNextOneGoesOnExactly) {
  ASSERT_EQ(run(arguments("undisturbed", 12)), 0) << output();
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 6; ++i) {
    const std::string name = "fault" + std::to_string(i);
    const std::string fault = std::to_string(1 + random() % 150) + ":28";  // ENOSPC
    setenv("WEFT_IO_FAIL_AT", fault.c_str(), 1);
    const int code = run(arguments(name, 12));
    unsetenv("WEFT_IO_FAIL_AT");
    expect_full_disk(code, output());
    ASSERT_EQ(run(arguments(name, 12)), 0) << fault << "\n" << output();
    EXPECT_EQ(trajectory(name), trajectory("undisturbed")) << fault;
  }
}

TEST_F(Training, FinishesItsStepAndSavesOnSignals) {
  ASSERT_EQ(run(arguments("undisturbed")), 0) << output();
  for (const int signal_number : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) {
    const std::string name = "signal" + std::to_string(signal_number);
    const pid_t child = start(arguments(name));
    wait_for_iteration(name, 3, child);
    kill(child, signal_number);
    ASSERT_EQ(wait(child), 10) << output();
    EXPECT_THAT(output(), HasSubstr("[exiting program after receiving SIG"));
    const int64_t last = metrics(name).back().at("iteration");
    EXPECT_EQ(tracker(name), std::to_string(last));
    ASSERT_EQ(run(arguments(name)), 0) << output();
    EXPECT_THAT(output(),
                HasSubstr("start 2: the last one ended at iteration " + std::to_string(last) +
                          " (exit code 10: exiting program after receiving SIG"));
    EXPECT_THAT(output(), HasSubstr("); this one goes on from iteration " + std::to_string(last) +
                                    ", none is done again\n"));
    EXPECT_EQ(trajectory(name), trajectory("undisturbed"));
  }
}

// Each start tells of the one before, whatever has ended that; nothing is told of an older one.
TEST_F(Training, AStartTellsHowTheLastOneEndedAndWhatIsDoneAgain) {
  const auto told = [this] {
    const std::string text = output();
    const size_t begin = text.find("start ");
    return begin == 0 ? text.substr(0, text.find('\n')) : "none";
  };
  const auto killed_at = [this](const Arguments& all, int64_t iteration) {
    const pid_t child = start(all);
    wait_for_iteration("run", iteration, child);
    kill(child, SIGKILL);
    EXPECT_EQ(wait(child), 128 + SIGKILL) << output();
    return metrics("run").back().at("iteration").get<int64_t>();
  };
  const Arguments rare = arguments("run", 100'000, {"--save-interval", "10000"});
  int64_t reached = killed_at(rare, 3);
  EXPECT_EQ(told(), "none");
  ASSERT_EQ(run(with(rare, {"--exit-interval", "5"})), 0) << output();
  EXPECT_EQ(told(), "start 2: the last one ended at iteration " + std::to_string(reached) +
                        " (it could not say why: it was killed, or its machine or the network to "
                        "it was lost); this one goes on from iteration 0, " +
                        std::to_string(reached) + " iterations are done again");
  const Arguments often = arguments("run", 30, {"--override-lr-scheduler"});
  EXPECT_EQ(run(with(often, {"--lr", "1e30"})), 11) << output();
  EXPECT_EQ(told(),
            "start 3: the last one ended at iteration 5 (exit code 0: exiting program at "
            "iteration 5); this one goes on from iteration 5, none is done again");
  ASSERT_EQ(run(often), 0) << output();
  EXPECT_THAT(told(), HasSubstr("start 4: the last one ended at iteration "));
  EXPECT_THAT(told(), HasSubstr(" (exit code 11: iteration "));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/failure.start_00003.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/failure.json"));
  ASSERT_EQ(run(often), 0) << output();
  EXPECT_EQ(told(),
            "start 5: the last one ended at iteration 30 (exit code 0: trained to the end); "
            "this one goes on from iteration 30, none is done again");
}

// A layer of step 2 is held up until the answer has come.
TEST_F(Training, ASignalIsAnsweredWhileTheStepRuns) {
  const auto answer_to = [&](int signal_number, const Arguments& all) {
    const std::string gate = folder_ / ("go" + std::to_string(signal_number));
    setenv("WEFT_CRASH_AT", ("layer_forward:28:" + gate).c_str(), 1);
    const pid_t child = start(all);
    unsetenv("WEFT_CRASH_AT");
    const auto has_ended = [child] {
      siginfo_t info{};
      return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
             info.si_pid == child;
    };
    while (!std::filesystem::exists(gate + ".waiting") && !has_ended()) usleep(1000);
    kill(child, signal_number);
    while (output().find("ends it at once, unsaved\n") == std::string::npos && !has_ended())
      usleep(1000);
    std::ofstream(gate).close();
    EXPECT_EQ(wait(child), 10) << output();
    return output();
  };
  EXPECT_THAT(
      answer_to(SIGTERM, arguments("run")),
      HasSubstr("SIGTERM: iteration 2 is finished first (about 0 s), then the state is saved "
                "and the program ends; the same signal more than 5 s later ends it at once, "
                "unsaved\n"));
  EXPECT_EQ(tracker("run"), "2");
  Arguments unsaved = arguments("none");
  for (const char* flag : {"--save", "--save-interval"}) {
    const auto found = std::find(unsaved.begin(), unsaved.end(), flag);
    unsaved.erase(found, found + 2);
  }
  EXPECT_THAT(answer_to(SIGINT, unsaved),
              HasSubstr("SIGINT: iteration 2 is finished first (about 0 s), then the program ends; "
                        "without --save the state is lost; once more ends it at once, unsaved\n"));
}

TEST_F(Training, ASignalThatComesAgainMuchLaterEndsARunThatHangs) {
  setenv("WEFT_CRASH_AT", ("file_mapped:1:" + (folder_ / "go").string()).c_str(), 1);
  const pid_t child = start(arguments("run"));
  unsetenv("WEFT_CRASH_AT");
  while (!std::filesystem::exists(folder_ / "go.waiting")) usleep(1000);
  kill(child, SIGTERM);
  usleep(300'000);
  kill(child, SIGTERM);  // launchers deliver a signal twice
  sleep(6);
  ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it ended by a signal that came at once again";
  kill(child, SIGTERM);
  EXPECT_EQ(wait(child), 128 + SIGTERM) << output();
}

// A layer that hangs stands for a kernel that does: nobody waits for this process, and it must end.
TEST_F(Training, AHangOfAProcessAloneIsExitTwelveWithTheOperation) {
  setenv("WEFT_CRASH_AT", ("layer_forward:28:" + (folder_ / "go").string()).c_str(), 1);
  const pid_t child = start(arguments("run", 30, {"--distributed-timeout-minutes", "0.02"}));
  unsetenv("WEFT_CRASH_AT");
  EXPECT_EQ(wait(child), 12) << output();
  // 2 layers and 4 micro-batches: the last layer of the second micro-batch of step 2. The start
  // records the operations of steps first, in 16 passes through a layer.
  const std::string what = "(forward of layer 1) of iteration 2 has not ended within";
  EXPECT_THAT(output(), HasSubstr(what));
  EXPECT_THAT(read_file(folder_ / "run/failure.json"), HasSubstr(what));
  EXPECT_THAT(read_file(folder_ / "run/operations.rank_00000.txt"),
              HasSubstr("waits forward of layer 1\n"));
}

TEST_F(Training, LimitsOfTheProcessAreExitNine) {
  for (const auto& [kib, flags, message] :
       // 64 threads that multiply want 128 MiB each for OpenBLAS.
       {std::tuple{"6000000", Arguments{}, "of address space"},
        {"4000000", Arguments{"--num-workers", "1000"}, "cannot start another thread"}}) {
    std::string command = "ulimit -v " + std::string(kib) + "; OMP_NUM_THREADS=64 exec " +
                          std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train";
    for (const std::string& argument : arguments("run", 30, flags)) command += " " + argument;
    command += " > " + (folder_ / "out").string() + " 2>&1";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 9) << output();
    EXPECT_THAT(output(), HasSubstr(message));
  }
}

TEST_F(Training, ASignalInAnEvaluationIsMadeUpForOnResume) {
  // Evaluations of 100 batches follow every step, so the signal arrives during one of them.
  const auto slow = [&](const std::string& run) {
    return arguments(run, 6,
                     {"--eval-iters", "100", "--eval-interval", "1", "--split", "40,30,30"});
  };
  ASSERT_EQ(run(slow("undisturbed")), 0) << output();
  const pid_t child = start(slow("stopped"));
  wait_for_iteration("stopped", 3, child);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGTERM);
  ASSERT_EQ(wait(child), 10) << output();
  ASSERT_EQ(run(slow("stopped")), 0) << output();
  EXPECT_EQ(trajectory("stopped"), trajectory("undisturbed"));
}

TEST_F(Training, ExitDurationSavesAndIsNoError) {
  ASSERT_EQ(run(arguments("run", 100000, {"--exit-duration-in-mins", "0.01", "--eval-iters", "0"})),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("[exiting program after 0.0"));
  EXPECT_EQ(tracker("run"), std::to_string(metrics("run").back().at("iteration").get<int64_t>()));
}

TEST_F(Training, ExitIntervalCountsAbsoluteIterationsAndIsNoError) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "7"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("[exiting program at iteration 7] datetime: "));
  EXPECT_EQ(tracker("run"), "7");
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "7"})), 0) << output();
  EXPECT_EQ(tracker("run"), "14");
}

TEST_F(Training, NumbersThatAreNotFiniteStopTheRunAndLeaveTheCheckpoint) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  EXPECT_EQ(run(arguments("run", 30, {"--lr", "1e30", "--override-lr-scheduler"})), 11) << output();
  EXPECT_THAT(output(), HasSubstr("error: iteration "));
  EXPECT_THAT(output(), HasSubstr("the last one is of iteration 5"));
  EXPECT_EQ(tracker("run"), "5");
}

}  // namespace
}  // namespace weft
