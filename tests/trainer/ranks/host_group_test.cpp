// Ranks as threads of one process agree on texts, and each tells where it stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/ranks/thread_ranks.h"

namespace weft {
namespace {

TEST(HostGroup, GathersTextsAndMaximaOfAllRanks) {
  run_ranks(5, [](HostGroup& host) {
    for (int turn = 0; turn < 20; ++turn) {
      const auto all = host.all_gather(std::to_string(host.rank() * 100 + turn) + ":\n");
      ASSERT_EQ(all.size(), 5U);
      for (size_t rank = 0; rank < 5; ++rank) {
        EXPECT_EQ(all[rank], std::to_string(rank * 100 + static_cast<size_t>(turn)) + ":\n");
      }
      int64_t values[] = {host.rank() == turn % 5 ? 7 : 0, -host.rank(), int64_t{1} << 40};
      host.max(values);
      EXPECT_THAT(values, testing::ElementsAre(7, 0, int64_t{1} << 40));
    }
  });
}

TEST(HostGroup, RemembersTheLastOperations) {
  FlightRecorder recorder;
  EXPECT_EQ(recorder.latest().number, 0);
  for (int i = 1; i <= 300; ++i) {
    recorder.set_iteration(i / 10);
    const FlightRecorder::Scope scope(recorder, "operation-" + std::to_string(i));
  }
  recorder.begin("the one that hangs");
  const std::string text = recorder.to_text();
  EXPECT_THAT(text, testing::HasSubstr("operation-300\n"));
  EXPECT_THAT(text, testing::HasSubstr("waits the one that hangs\n"));
  EXPECT_THAT(text, testing::HasSubstr("operation-46\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("operation-45\n")));
  EXPECT_EQ(recorder.latest().iteration, 30);
}

// An operation with more operations inside of it than are kept is still known to be under way.
TEST(HostGroup, RemembersTheOperationAroundOthers) {
  FlightRecorder recorder;
  const FlightRecorder::Scope step(recorder, "a step");
  for (int i = 0; i < 300; ++i) {
    const FlightRecorder::Scope layer(recorder, "a layer");
    EXPECT_EQ(recorder.latest().name, "a layer");
  }
  EXPECT_EQ(recorder.latest().name, "a step");
  EXPECT_FALSE(recorder.latest().has_ended);
  EXPECT_GT(recorder.latest().waits_since, recorder.latest().begun)
      << "it gets on as long as those inside of it do";
}

TEST(HostGroup, GathersTextsOnTheFirstRank) {
  run_ranks(3, [](HostGroup& host) {
    const auto all = host.gather("of " + std::to_string(host.rank()));
    if (host.rank() == 0) {
      EXPECT_THAT(all, testing::ElementsAre("of 0", "of 1", "of 2"));
    } else {
      EXPECT_THAT(all, testing::IsEmpty());
    }
  });
}

// What is left to send at the end is no reason to stay for ever.
TEST(HostGroup, EndsWhereTheNetworkDoesNotTakeTheLastMessages) {
  class StuckTransport final : public ThreadTransport {
   public:
    using ThreadTransport::ThreadTransport;
    bool is_all_sent() override { return false; }
  };
  ThreadNetwork network(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      TransportGroup group(std::make_unique<StuckTransport>(network, rank),
                           {.timeout = std::chrono::milliseconds(3'000)});
      group.end();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RankProgress, SurvivesItsText) {
  FlightRecorder recorder;
  recorder.set_iteration(7);
  recorder.begin("gather of texts");
  EXPECT_GE(progress_of(recorder).waited_ms, 0);
  recorder.end();
  EXPECT_EQ(progress_of(recorder).waited_ms, -1);
  EXPECT_EQ(progress_of(recorder).idle_ms, -1);
  recorder.note_work();
  EXPECT_GE(progress_of(recorder).idle_ms, 0);
  const RankProgress told = progress_from_text(to_text(progress_of(recorder)));
  EXPECT_EQ(told.number, 1);
  EXPECT_EQ(told.iteration, 7);
  EXPECT_EQ(told.waited_ms, -1);
  EXPECT_GE(told.idle_ms, 0);
  EXPECT_EQ(told.operation, "gather of texts");
  recorder.begin("the next one");
  recorder.end();
  EXPECT_EQ(progress_of(recorder).idle_ms, -1) << "the work before it does not count";
}

TEST(RankProgress, ARankThatDoesNotArriveIsNamedUnlessItWorks) {
  const std::vector<std::string> names = {"rank 0", "rank 1", "rank 2"};
  const std::chrono::milliseconds timeout(60'000);
  std::vector<RankProgress> ranks = {
      {.number = 9, .iteration = 3, .waited_ms = 61'000, .operation = "gather"},
      {.number = 8, .iteration = 3, .operation = "gather"},
      {.number = 9, .iteration = 3, .waited_ms = 60'500, .operation = "gather"}};
  EXPECT_THAT(hang_message(ranks, names, timeout),
              testing::StartsWith("rank 1, which goes on after operation 8 (gather)"));
  ranks[1].idle_ms = 2'000;
  EXPECT_EQ(hang_message(ranks, names, timeout), "") << "it writes a checkpoint";
  ranks[1].idle_ms = 60'000;
  EXPECT_THAT(hang_message(ranks, names, timeout), testing::StartsWith("rank 1"))
      << "it has not written for as long";
  ranks[0].waited_ms = ranks[2].waited_ms = 59'000;
  EXPECT_EQ(hang_message(ranks, names, timeout), "");
}

TEST(RankProgress, AProcessAloneThatDoesNotGetOnIsToldWhere) {
  const RankProgress hung{
      .number = 7, .iteration = 3, .waited_ms = 61'000, .operation = "forward of layer 1"};
  EXPECT_THAT(hang_message({hung}, {"rank 0"}, std::chrono::milliseconds(60'000)),
              testing::StartsWith("operation 7 (forward of layer 1) of iteration 3 has not ended "
                                  "within --distributed-timeout-minutes 1: the device hangs"));
  EXPECT_EQ(hang_message({hung}, {"rank 0"}, std::chrono::milliseconds(62'000)), "");
}

}  // namespace
}  // namespace weft
