// Ranks as threads of one process agree on texts and sum tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/bfloat16.h"
#include "kernels/philox.h"
#include "tests/trainer/parallel/thread_ranks.h"

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

std::vector<float> values_of(int rank, int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = philox_word(seed, static_cast<uint64_t>(rank), i);
    values[i] = static_cast<float>(word) / 1e9F - 2.0F;
  }
  return values;
}

Tensor tensor_of(std::vector<float>& values) {
  return Tensor(values.data(), DType::kFloat32, {static_cast<int64_t>(values.size())});
}

class Sums : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, Sums, testing::Values(2, 3, 4, 7));

// Each element is ((v0 + v1) + v2) + ... in fp32, to the bit, on every rank.
TEST_P(Sums, AreMadeInTheOrderOfRanks) {
  const int size = GetParam();
  for (const int64_t count : {int64_t{1}, int64_t{5}, int64_t{1000}, int64_t{4096 * size}}) {
    std::vector<float> expected = values_of(0, count, 3);
    std::vector<float> greatest = expected;
    for (int rank = 1; rank < size; ++rank) {
      const std::vector<float> other = values_of(rank, count, 3);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] += other[i];
        greatest[i] = std::max(greatest[i], other[i]);
      }
    }
    run_topology({1, 1, size}, [&](ProcessGroups& groups) {
      Communicator& data = *groups.data;
      ASSERT_EQ(data.rank(), groups.host->rank());
      std::vector<float> values = values_of(data.rank(), count, 3);
      data.all_reduce(tensor_of(values), Reduce::kSum, Stream::kCompute);
      EXPECT_EQ(values, expected);
      values = values_of(data.rank(), count, 3);
      data.all_reduce(tensor_of(values), Reduce::kMax, Stream::kCompute);
      EXPECT_EQ(values, greatest);
      if (count % size != 0) return;
      // In place, a reduce-scatter and an all-gather make an all-reduce.
      values = values_of(data.rank(), count, 3);
      const int64_t part = count / size;
      const Tensor own(values.data() + data.rank() * part, DType::kFloat32, {part});
      data.reduce_scatter(own, tensor_of(values), Stream::kCompute);
      data.all_gather(tensor_of(values), own, Stream::kCompute);
      EXPECT_EQ(values, expected);
    });
  }
}

TEST_P(Sums, OfBf16AreRoundedOnce) {
  const int size = GetParam();
  constexpr size_t kCount = 33;
  std::vector<float> expected(kCount, 0);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> values = values_of(rank, kCount, 5);
    for (size_t i = 0; i < kCount; ++i) expected[i] += static_cast<float>(BFloat16(values[i]));
  }
  run_topology({size, 1, 1}, [&](ProcessGroups& groups) {
    std::vector<BFloat16> values;
    for (const float value : values_of(groups.tensor->rank(), kCount, 5)) {
      values.emplace_back(value);
    }
    groups.tensor->all_reduce(Tensor(values.data(), DType::kBFloat16, {int64_t{kCount}}),
                              Reduce::kSum, Stream::kCompute);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(static_cast<float>(values[i]), static_cast<float>(BFloat16(expected[i])));
    }
  });
}

TEST(Communicators, OfOneRankDoNotMixTheirMessages) {
  run_topology(topology_of(8, 2, 2), [](ProcessGroups& groups) {
    const int world = groups.host->rank();
    for (int turn = 0; turn < 10; ++turn) {
      for (const GroupKind kind : {GroupKind::kTensor, GroupKind::kPipeline, GroupKind::kData,
                                   GroupKind::kModel, GroupKind::kTied}) {
        Communicator& group = groups.of(kind);
        const std::vector<int> ranks = ranks_of(groups.layout, kind);
        ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
        std::vector<float> value{static_cast<float>(world + 1)};
        group.all_reduce(tensor_of(value), Reduce::kSum, Stream::kCompute);
        float expected = 0;
        for (const int rank : ranks) expected += static_cast<float>(rank + 1);
        EXPECT_EQ(value[0], expected) << name_of(kind);
        value[0] = static_cast<float>(world);
        group.broadcast(tensor_of(value), group.size() - 1, Stream::kCompute);
        EXPECT_EQ(value[0], static_cast<float>(ranks.back())) << name_of(kind);
      }
    }
  });
}

TEST(Communicators, ExchangeInARingWithoutBlocking) {
  run_topology({1, 4, 1}, [](ProcessGroups& groups) {
    Communicator& ring = *groups.pipeline;
    std::vector<float> mine(100'000, static_cast<float>(ring.rank())), received(mine.size());
    const Transfer transfers[] = {{tensor_of(mine), (ring.rank() + 1) % 4, true},
                                  {tensor_of(received), (ring.rank() + 3) % 4, false}};
    ring.exchange(transfers, Stream::kCompute);
    EXPECT_EQ(received, std::vector<float>(mine.size(), static_cast<float>((ring.rank() + 3) % 4)));
  });
}

TEST(RankTable, NamesEachRanksPlace) {
  run_topology(topology_of(4, 2, 1), [](ProcessGroups& groups) {
    const std::string table =
        rank_table(*groups.host, groups.layout, groups.host->all_gather("CPU"));
    EXPECT_THAT(table, testing::HasSubstr("rank"));
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
  });
}

}  // namespace
}  // namespace weft
