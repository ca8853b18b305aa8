// The ledger with many ranks in virtual time: nothing here depends on this machine's speed.
#include "tests/bench/ledger_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "preprocess/ledger/ledger.h"

namespace weft {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kSimulatedMiB = 1 << 20;

SimulatedCluster eight_ranks() {
  SimulatedCluster cluster;
  cluster.num_ranks = 8;
  cluster.num_workers = 4;
  cluster.num_readers = 2;
  return cluster;
}

// Streams that cannot be cut, of very different lengths: most of it must be spilled.
std::vector<SimulatedTask> streams() {
  std::vector<SimulatedTask> tasks;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t bytes = (1 + (i * 37) % 11) * 100 * kSimulatedMiB + 12345;
    tasks.push_back({{i, static_cast<int32_t>(i), 0, bytes}, bytes});
  }
  return tasks;
}

TEST(Ledger, NobodyIsGivenMoreThanItsShareOfWhatIsLeft) {
  std::vector<Task> tasks;
  for (int i = 0; i < 30; ++i) tasks.push_back({i, i, 0, 100});
  Ledger ledger(tasks, std::vector<std::string>(30, "shard"), 1, {-1, 2});
  LedgerRequest request;
  request.num_tasks_wanted = 24;
  const LedgerReply first = ledger.answer(0, request);
  EXPECT_EQ(first.assigned.size(), 15u);
  EXPECT_EQ(ledger.answer(0, request).assigned.size(), 0u) << "asked again at once";
  EXPECT_EQ(ledger.answer(1, request).assigned.size(), 15u);
  // One read to its end: nothing is left to be given.
  LedgerRequest read;
  read.read_tasks = {{0, {{}, {{}}, {}, {}, 0}}};
  read.num_tasks_wanted = 24;
  EXPECT_EQ(ledger.answer(0, read).assigned.size(), 0u);
}

TEST(LedgerSimulation, FewStreamsAreSharedEvenly) {
  // Every rank could read 24 at once; the first to ask must not take them all.
  SimulatedCluster cluster = eight_ranks();
  cluster.num_ranks = 2;
  cluster.num_workers = 96;
  cluster.num_readers = 24;
  cluster.decompress_bytes_per_s = 700e6;
  std::vector<SimulatedTask> tasks;
  for (int i = 0; i < 30; ++i)
    tasks.push_back({{i, i, 0, 2000 * kSimulatedMiB}, 2000 * kSimulatedMiB});
  const auto result = simulate(cluster, tasks);
  EXPECT_THAT(result.mistakes, IsEmpty());
  // 15 streams each: 2.1 GB take 3 s at 700 MB/s; 24 on one machine would be slowed by its network.
  EXPECT_LT(result.makespan_s, 10);
}

TEST(LedgerSimulation, EveryTaskIsPlacedOnceAndNobodyIsIdle) {
  const auto result =
      simulate(eight_ranks(), even_tasks(100'000 * kSimulatedMiB, 32 * kSimulatedMiB));
  EXPECT_THAT(result.mistakes, IsEmpty());
  EXPECT_LT(result.idle_share, 0.05);
  EXPECT_EQ(result.spilled_bytes, 0) << "tasks in order have their places soon";
}

// Written tokens are read back while other text is read: little is left behind the last task.
TEST(LedgerSimulation, TheLastPassesAreShort) {
  for (const int num_ranks : {1, 8, 40}) {
    SimulatedCluster cluster = eight_ranks();
    cluster.num_ranks = num_ranks;
    const auto result =
        simulate(cluster, even_tasks(num_ranks * 12'000 * kSimulatedMiB, 32 * kSimulatedMiB));
    EXPECT_THAT(result.mistakes, IsEmpty());
    EXPECT_LT(result.tail_s, 0.05 * result.makespan_s) << num_ranks << " ranks";
  }
}

TEST(LedgerSimulation, StreamsOfDifferentLengthsAreSpilled) {
  SimulatedCluster cluster = eight_ranks();
  cluster.decompress_bytes_per_s = 700e6;
  const auto result = simulate(cluster, streams());
  EXPECT_THAT(result.mistakes, IsEmpty());
  EXPECT_GT(result.spilled_bytes, 0);
}

// One long stream in front of a corpus: all behind it waits for its place.
TEST(LedgerSimulation, ASlowFirstStreamLetsNoMoreBeSpilledThanTheLimit) {
  std::vector<SimulatedTask> tasks = even_tasks(100'000 * kSimulatedMiB, 32 * kSimulatedMiB);
  tasks.front().text_bytes = 20'000 * kSimulatedMiB;
  SimulatedCluster cluster = eight_ranks();
  cluster.max_held_bytes_per_worker = kSimulatedMiB;
  const auto free = simulate(cluster, tasks);
  EXPECT_THAT(free.mistakes, IsEmpty());
  cluster.max_spilled_bytes = 5'000 * kSimulatedMiB;
  EXPECT_GT(free.peak_spilled_bytes, 3 * cluster.max_spilled_bytes) << "nothing to be limited";
  const auto limited = simulate(cluster, tasks);
  EXPECT_THAT(limited.mistakes, IsEmpty());
  EXPECT_LE(limited.peak_spilled_bytes, cluster.max_spilled_bytes);
  EXPECT_GT(limited.peak_spilled_bytes, cluster.max_spilled_bytes / 2);
  for (const int64_t mib : {0, 100, 5'000}) {
    cluster.max_spilled_bytes = mib * kSimulatedMiB;
    EXPECT_THAT(simulate(cluster, tasks).mistakes, IsEmpty()) << mib << " MiB";
    EXPECT_THAT(simulate(cluster, streams()).mistakes, IsEmpty()) << mib << " MiB";
  }
}

TEST(LedgerSimulation, IsTheSameEveryTime) {
  const auto one = simulate(eight_ranks(), streams());
  const auto two = simulate(eight_ranks(), streams());
  EXPECT_EQ(one.makespan_s, two.makespan_s);
  EXPECT_EQ(one.num_messages, two.num_messages);
  EXPECT_EQ(one.message_bytes, two.message_bytes);
}

}  // namespace
}  // namespace weft
