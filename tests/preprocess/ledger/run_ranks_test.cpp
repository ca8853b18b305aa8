// Ranks tell each other what they do, and end together, over a network inside this process in place
// of MPI. tests/preprocess/run/mpirun_test.sh does it with Open MPI and whole programs.
#include "preprocess/ledger/run_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/indexed_dataset/thread_network.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

std::unique_ptr<RunRanks> rank_of(ThreadNetwork& network, int rank,
                                  milliseconds peer_timeout = milliseconds(60'000)) {
  return std::make_unique<RunRanks>(std::make_unique<ThreadTransport>(network, rank),
                                    RunRanksOptions{peer_timeout, [](const std::string& message) {
                                                      std::fprintf(stderr, "error: %s\n",
                                                                   message.c_str());
                                                    }});
}

bool never() { return false; }
std::string compared(const std::string& rank_0, const std::string& other) {
  return rank_0 == other ? "" : rank_0 + " is not " + other;
}
int code(ExitCode exit_code) { return static_cast<int>(exit_code); }

// Runs f, and returns what it throws.
template <typename F>
std::optional<RunFailure> failure_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return RunFailure{code(exit_code_for(error)), error.what(), {}};
  }
  return std::nullopt;
}

// Runs rank 0 with one task to be done.
class RunRanksTest : public ::testing::Test {
 protected:
  std::shared_ptr<LocalLedger> ledger() {
    return std::make_shared<LocalLedger>(Ledger({{0, 0, 0, 100}}, {"corpus"}, 1, {}),
                                         Journal(folder_.path() / "journal", "{}"),
                                         LocalLedger::RemoveSpill());
  }
  // One that does all tasks it is given.
  static LedgerReply do_a_task(RunRanks& ranks) {
    LedgerRequest request;
    request.num_tasks_wanted = 1;
    const LedgerReply reply = ranks.exchange(request);
    LedgerRequest done;
    for (const auto& assigned : reply.assigned) {
      TaskProgress progress;
      progress.counts.datasets = {{1, 1, 5}};
      progress.is_read = true;
      done.durable.push_back({assigned.task.number, progress});
    }
    return ranks.exchange(done);
  }
  TemporaryFolder folder_;
};

TEST_F(RunRanksTest, RanksAskTheLedgerOfRank0AndEndTogether) {
  ThreadNetwork network(3);
  std::vector<std::thread> others;
  std::atomic<int> num_done = 0;
  for (int rank = 1; rank < 3; ++rank) {
    others.emplace_back([&, rank] {
      const auto ranks = rank_of(network, rank);
      EXPECT_EQ(ranks->wait_for_work("same", never), "word");
      while (!do_a_task(*ranks).all_done) std::this_thread::yield();
      ++num_done;
      EXPECT_EQ(ranks->end(0, ""), 0);
    });
  }
  const auto ranks = rank_of(network, 0);
  ranks->compare("same", compared, never);
  const auto shared = ledger();
  ranks->serve(shared, "word");
  ranks->end_work();
  EXPECT_EQ(num_done, 2);
  EXPECT_TRUE(shared->with_ledger([](const Ledger& each) { return each.all_done(); }));
  EXPECT_EQ(ranks->end(0, ""), 0);
  for (std::thread& other : others) other.join();
}

TEST_F(RunRanksTest, RanksEndWellWhereThereIsNothingToDo) {
  ThreadNetwork network(2);
  std::thread other([&] {
    const auto ranks = rank_of(network, 1);
    EXPECT_EQ(ranks->wait_for_work("same", never), std::nullopt);
    EXPECT_EQ(ranks->end(0, ""), 0);
  });
  const auto ranks = rank_of(network, 0);
  ranks->compare("same", compared, never);
  EXPECT_EQ(ranks->end(0, ""), 0);
  other.join();
}

TEST_F(RunRanksTest, OneThatDiffersIsNamedAndEndsAll) {
  ThreadNetwork network(3);
  std::vector<std::thread> others;
  for (int rank = 1; rank < 3; ++rank) {
    others.emplace_back([&, rank] {
      const auto ranks = rank_of(network, rank);
      const auto failure =
          failure_of([&] { ranks->wait_for_work(rank == 2 ? "other" : "same", never); });
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->exit_code, code(ExitCode::kConfigurationDiffers));
      EXPECT_EQ(ranks->end(failure->exit_code, failure->message), failure->exit_code);
    });
  }
  const auto ranks = rank_of(network, 0);
  const auto failure = failure_of([&] { ranks->compare("same", compared, never); });
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->message, HasSubstr("rank 2 (thread 2)"));
  EXPECT_THAT(failure->message, HasSubstr("same is not other"));
  EXPECT_EQ(ranks->end(failure->exit_code, failure->message), 14);
  for (std::thread& other : others) other.join();
}

TEST_F(RunRanksTest, AFailureOfOneIsToldToAllWithItsName) {
  ThreadNetwork network(3);
  std::thread failing([&] {
    const auto ranks = rank_of(network, 1);
    ranks->wait_for_work("same", never);
    LedgerRequest leaving;
    leaving.leaving = RunFailure{code(ExitCode::kIo), "cannot write", {}};
    ranks->exchange(leaving);
    EXPECT_EQ(ranks->end(code(ExitCode::kIo), "cannot write"), code(ExitCode::kIo));
  });
  std::thread other([&] {
    const auto ranks = rank_of(network, 2);
    ranks->wait_for_work("same", never);
    std::optional<RunFailure> failure;
    while (!failure) failure = ranks->exchange({}).failure;
    EXPECT_EQ(failure->message, "rank 1 (thread 1): cannot write");
    EXPECT_EQ(ranks->end(failure->exit_code, failure->message), code(ExitCode::kIo));
  });
  const auto ranks = rank_of(network, 0);
  ranks->compare("same", compared, never);
  ranks->serve(ledger(), "word");
  const auto failure = failure_of([&] { ranks->end_work(); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->exit_code, code(ExitCode::kIo));
  EXPECT_EQ(failure->message, "rank 1 (thread 1): cannot write");
  EXPECT_EQ(ranks->end(failure->exit_code, failure->message), code(ExitCode::kIo));
  failing.join();
  other.join();
}

TEST_F(RunRanksTest, OneThatWaitsCanBeStoppedAndAllEnd) {
  ThreadNetwork network(2);
  std::thread other([&] {
    const auto ranks = rank_of(network, 1);
    EXPECT_THROW(ranks->wait_for_work("same", [] { return true; }), RankStopped);
    EXPECT_EQ(ranks->end(10, "stopped on request"), 10);
  });
  const auto ranks = rank_of(network, 0);
  // The identity may have come before the rank was stopped.
  failure_of([&] { ranks->compare("same", compared, never); });
  const auto failure = failure_of([&] { ranks->end_work(); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->exit_code, 10);
  EXPECT_EQ(ranks->end(10, ""), 10);
  other.join();
}

using RunRanksDeathTest = RunRanksTest;

TEST_F(RunRanksDeathTest, ASilentRankIsNamedAndAllAreAborted) {
  const auto run = [] {
    ThreadNetwork network(2);
    const auto ranks = rank_of(network, 0, milliseconds(300));
    const auto failure = failure_of([&] { ranks->compare("same", compared, never); });
    ranks->end(failure->exit_code, failure->message);
  };
  EXPECT_EXIT(run(), ExitedWithCode(13), "error: rank 1 \\(thread 1\\) was silent for 0 s");
}

TEST_F(RunRanksDeathTest, ASilentRank0IsNamed) {
  const auto run = [] {
    ThreadNetwork network(2);
    const auto ranks = rank_of(network, 1, milliseconds(300));
    ranks->wait_for_work("same", never);
  };
  EXPECT_EXIT(run(), ExitedWithCode(13), "error: rank 0 \\(thread 0\\) was silent for 0 s");
}

TEST_F(RunRanksDeathTest, ARankThatDoesNotEndAfterAFailureIsNamed) {
  const auto run = [] {
    ThreadNetwork network(2);
    std::thread other([&] {
      const auto ranks = rank_of(network, 1, milliseconds(300));
      std::this_thread::sleep_for(std::chrono::seconds(60));  // it lives, and does not listen
    });
    const auto ranks = rank_of(network, 0, milliseconds(300));
    ranks->end(3, "a bad line");
  };
  EXPECT_EXIT(run(), ExitedWithCode(3), "a bad line\n  rank 1 \\(thread 1\\) did not end within");
}

TEST_F(RunRanksDeathTest, NonsenseIsAMistakeOfTheProgram) {
  const auto run = [] {
    ThreadNetwork network(2);
    ThreadTransport(network, 1).send(0, 3, "no request");
    const auto ranks = rank_of(network, 0);
    failure_of([&] { ranks->compare("same", compared, never); });
  };
  EXPECT_EXIT(run(), ExitedWithCode(1), "makes no sense");
}

}  // namespace
}  // namespace weft
