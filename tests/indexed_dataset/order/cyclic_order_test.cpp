#include "indexed_dataset/order/samples/cyclic_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "indexed_dataset/order/samples/torch_randperm.h"

namespace weft {
namespace {

using testing::ElementsAre;

// Published results of torch.manual_seed(s); torch.randperm(10).
TEST(TorchRandperm, GivesTheNumbersOfPyTorch) {
  EXPECT_THAT(torch_randperm(10, 0), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
  EXPECT_THAT(torch_randperm(10, 1), ElementsAre(5, 6, 1, 2, 0, 8, 9, 3, 7, 4));
  EXPECT_THAT(torch_randperm(1, 7), ElementsAre(0));
  EXPECT_THROW(torch_randperm(214'748'364, 0), std::invalid_argument);
}

// Returns what Megatron's sampler yields to a rank. It cuts lists, as the sampler does.
std::vector<std::vector<int64_t>> micro_batches_of_rank(int64_t total, int64_t consumed,
                                                        const CyclicOptions& options,
                                                        int64_t rank) {
  const int64_t batch = options.micro_batch_size, ranks = options.data_parallel_size;
  const int64_t active = total - total % (batch * ranks), current = consumed % active;
  const auto epoch = static_cast<uint64_t>(consumed / active);
  std::vector<int64_t> range;
  if (options.shards) {
    const int64_t bucket = total / (batch * ranks) * batch;
    const auto order = torch_randperm(bucket, epoch);
    for (auto i = static_cast<size_t>(current / ranks); i < order.size(); ++i)
      range.push_back(rank * bucket + order[i]);
  } else {
    const auto order = torch_randperm(total / batch * batch, epoch);
    for (auto i = static_cast<size_t>(current + rank); i < order.size();
         i += static_cast<size_t>(ranks))
      range.push_back(order[i]);
  }
  std::vector<std::vector<int64_t>> micro_batches;
  for (size_t i = 0; i + static_cast<size_t>(batch) <= range.size();
       i += static_cast<size_t>(batch))
    micro_batches.emplace_back(range.begin() + static_cast<int64_t>(i),
                               range.begin() + static_cast<int64_t>(i) + batch);
  return micro_batches;
}

TEST(CyclicOrder, GivesEachRankWhatMegatronsSamplerYields) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const CyclicOptions options{.micro_batch_size = static_cast<int64_t>(1 + random() % 4),
                                .data_parallel_size = static_cast<int64_t>(1 + random() % 4),
                                .shards = random() % 2 == 0};
    const int64_t unit = options.micro_batch_size * options.data_parallel_size;
    const int64_t total = unit + static_cast<int64_t>(random() % 60), active = total - total % unit;
    const CyclicOrder order(total, options);
    // From somewhere in an epoch to its end.
    const int64_t consumed = static_cast<int64_t>(random() % 4) * active +
                             static_cast<int64_t>(random()) % (active / unit) * unit;
    for (int64_t rank = 0; rank < options.data_parallel_size; ++rank) {
      const auto expected = micro_batches_of_rank(total, consumed, options, rank);
      const int64_t num_left = (active - consumed % active) / unit;
      ASSERT_GE(std::ssize(expected), num_left);
      for (int64_t k = 0; k < num_left; ++k) {
        for (int64_t slot = 0; slot < options.micro_batch_size; ++slot) {
          const int64_t position = consumed + k * unit + rank * options.micro_batch_size + slot;
          ASSERT_EQ(order.sample_at(position),
                    expected[static_cast<size_t>(k)][static_cast<size_t>(slot)]);
        }
      }
    }
  }
}

// Over three ends of epochs. Without sharding Megatron's sampler may yield a micro-batch more to
// some ranks, of samples behind the last whole micro-batch of all ranks; a run that is resumed at
// the epoch's end does not take it. Here no run does.
TEST(CyclicOrder, BeginsEachEpochAsARunThatIsResumedThere) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int num_uneven = 0;
  for (int round = 0; round < 200; ++round) {
    const CyclicOptions options{.micro_batch_size = static_cast<int64_t>(1 + random() % 3),
                                .data_parallel_size = static_cast<int64_t>(1 + random() % 4),
                                .shards = random() % 4 == 0};
    const int64_t unit = options.micro_batch_size * options.data_parallel_size;
    const int64_t total = unit + static_cast<int64_t>(random() % 30), active = total - total % unit;
    const CyclicOrder order(total, options);
    const int64_t begin = static_cast<int64_t>(random()) % (active / unit) * unit;
    for (int64_t rank = 0; rank < options.data_parallel_size; ++rank) {
      std::vector<std::vector<int64_t>> expected;
      for (int64_t consumed = begin; consumed < 4 * active;
           consumed += active - consumed % active) {
        auto of_epoch = micro_batches_of_rank(total, consumed, options, rank);
        const auto num_left = static_cast<size_t>((active - consumed % active) / unit);
        num_uneven += of_epoch.size() > num_left ? 1 : 0;
        ASSERT_LE(of_epoch.size(), num_left + (options.shards ? 0 : 1));
        of_epoch.resize(num_left);
        expected.insert(expected.end(), of_epoch.begin(), of_epoch.end());
      }
      ASSERT_EQ(std::ssize(expected), (4 * active - begin) / unit);
      for (int64_t k = 0; k < std::ssize(expected); ++k) {
        for (int64_t slot = 0; slot < options.micro_batch_size; ++slot) {
          ASSERT_EQ(order.sample_at(begin + k * unit + rank * options.micro_batch_size + slot),
                    expected[static_cast<size_t>(k)][static_cast<size_t>(slot)]);
        }
      }
    }
  }
  EXPECT_GT(num_uneven, 20);
}

// Five samples, two ranks: the sampler of rank 0 yields three micro-batches, that of rank 1 two.
TEST(CyclicOrder, TheUnevenEndOfAnEpochWithoutShardingIsNotTaken) {
  const CyclicOptions options{.micro_batch_size = 1, .data_parallel_size = 2, .shards = false};
  ASSERT_EQ(micro_batches_of_rank(5, 0, options, 0).size(), 3U);
  ASSERT_EQ(micro_batches_of_rank(5, 0, options, 1).size(), 2U);
  const CyclicOrder order(5, options);
  const auto first = torch_randperm(5, 0), second = torch_randperm(5, 1);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(order.sample_at(i), first[static_cast<size_t>(i)]);
    EXPECT_EQ(order.sample_at(4 + i), second[static_cast<size_t>(i)]);
  }
}

TEST(CyclicOrder, TakesEachSampleOncePerEpoch) {
  for (const bool shards : {true, false}) {
    const CyclicOrder order(24, {.micro_batch_size = 2, .data_parallel_size = 3, .shards = shards});
    std::vector<int64_t> before;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> taken;
      for (int64_t i = 0; i < 24; ++i) taken.push_back(order.sample_at(24 * epoch + i));
      EXPECT_NE(taken, before);
      before = taken;
      std::sort(taken.begin(), taken.end());
      for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)], i);
    }
  }
}

TEST(CyclicOrder, RefusesADatasetOfLessThanAMicroBatch) {
  EXPECT_THROW(CyclicOrder(5, {.micro_batch_size = 2, .data_parallel_size = 3}),
               std::invalid_argument);
}

}  // namespace
}  // namespace weft
