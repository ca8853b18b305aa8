// Ranks as threads of one process sum, gather and exchange tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/bfloat16.h"
#include "kernels/philox.h"
#include "tests/trainer/ranks/thread_ranks.h"

namespace weft {
namespace {

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
