// Published vectors were made with the C++ extension of Megatron-Core and bigscience's fork.
#include "indexed_dataset/order/samples/blending_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "indexed_dataset/order/blends/blend_sizes.h"
#include "tests/indexed_dataset/md5.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<int32_t> datasets_of(const BlendingIndex& index) {
  return std::visit([](const auto& of) { return std::vector<int32_t>(of.begin(), of.end()); },
                    index.dataset_index);
}
const std::vector<int16_t>& short_datasets_of(const BlendingIndex& index) {
  return std::get<std::vector<int16_t>>(index.dataset_index);
}

// The rule as it is written down, looking at every dataset for every sample.
std::pair<std::vector<int32_t>, std::vector<int64_t>> simple_blend(
    const std::vector<double>& weights, int64_t size, const std::vector<int64_t>& sizes = {}) {
  std::vector<int64_t> counts(weights.size());
  std::pair<std::vector<int32_t>, std::vector<int64_t>> index;
  for (int64_t k = 0; k < size; ++k) {
    const double at = std::max(static_cast<double>(k), 1.0);
    int32_t best = -1;
    double most = 0;
    for (size_t d = 0; d < weights.size(); ++d) {
      if (!sizes.empty() && counts[d] == sizes[d]) continue;
      const volatile double product = weights[d] * at;  // rounded by itself
      const double behind = product - static_cast<double>(counts[d]);
      if (best >= 0 && behind <= most) continue;
      best = static_cast<int32_t>(d);
      most = behind;
    }
    index.first.push_back(best);
    index.second.push_back(counts[static_cast<size_t>(best)]++);
  }
  return index;
}

TEST(BlendingIndex, SmallVectors) {
  EXPECT_THAT(datasets_of(build_blending_index(std::vector{0.3, 0.7}, 12)),
              ElementsAre(1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1));
  EXPECT_THAT(datasets_of(build_blending_index(std::vector{0.25, 0.25, 0.5}, 12)),
              ElementsAre(2, 0, 1, 2, 0, 2, 1, 2, 0, 2, 1, 2));
  EXPECT_THAT(datasets_of(build_blending_index(std::vector{0.1, 0.2, 0.7}, 12)),
              ElementsAre(2, 1, 2, 0, 2, 2, 1, 2, 2, 2, 0, 2));
  EXPECT_THAT(datasets_of(build_exhaustive_blending_index(std::vector<int64_t>{3, 5, 2})),
              ElementsAre(1, 0, 2, 1, 0, 1, 2, 1, 0, 1));
}

TEST(BlendingIndex, LargeVectors) {
  const BlendingIndex three = build_blending_index(std::vector{0.3, 0.5, 0.2}, 100000);
  EXPECT_EQ(md5_of(short_datasets_of(three)), "e5f6e234dc95b6b38e9dfd6459c7ef55");
  EXPECT_EQ(md5_of(three.sample_index), "04db2739ba548ad558cda4fa490ef1f3");

  std::vector<double> weights(8, 0.1);
  weights[7] = 3.5;
  const BlendingIndex eight = build_blending_index(normalize_weights(weights), 65536);
  EXPECT_EQ(md5_of(short_datasets_of(eight)), "2ec3689e782a70fcd4d7ce69a41cd34a");
  EXPECT_EQ(md5_of(eight.sample_index), "e395b6430bab4e1446f6ae4e00f3220b");
  EXPECT_THAT(eight.counts, ElementsAre(1561, 1561, 1561, 1560, 1560, 1560, 1560, 54613));

  const BlendingIndex all =
      build_exhaustive_blending_index(std::vector<int64_t>{1000, 25000, 333, 70000});
  EXPECT_EQ(md5_of(short_datasets_of(all)), "6a26c318188373dfd4aca1282257b8a2");
  EXPECT_EQ(md5_of(all.sample_index), "9653f9deef865d01367e8efcf8334f0e");
  EXPECT_THAT(all.counts, ElementsAre(1000, 25000, 333, 70000));
}

// Weights of many kinds: alike, almost alike, of few values, over many orders of magnitude.
std::vector<double> random_weights(std::mt19937& random, size_t count) {
  std::vector<double> weights(count);
  const unsigned kind = random() % 5;
  for (double& weight : weights) {
    const double uniform = (random() + 1.0) / 4294967297.0;
    weight = kind == 0   ? 1.0
             : kind == 1 ? 1.0 + uniform * 1e-9
             : kind == 2 ? 1.0 + random() % 3
             : kind == 3 ? std::exp(20 * uniform)
                         : uniform;
  }
  if (random() % 4 == 0) weights[0] *= 1000;
  return weights;
}

TEST(BlendingIndex, EqualsTheSimpleLoopForRandomWeights) {
  std::mt19937 random(20261122);
  for (int trial = 0; trial < 120 && !HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of std::mt19937(20261122)");
    const std::vector<double> weights =
        normalize_weights(random_weights(random, 1 + random() % (trial % 10 == 0 ? 1500 : 100)));
    const int64_t size = 1 + random() % 8000;
    const BlendingIndex index = build_blending_index(weights, size);
    const auto expected = simple_blend(weights, size);
    EXPECT_EQ(datasets_of(index), expected.first);
    EXPECT_EQ(index.sample_index, expected.second);
  }
}

TEST(BlendingIndex, EqualsTheSimpleLoopForRandomSizes) {
  std::mt19937 random(20261123);
  for (int trial = 0; trial < 120 && !HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of std::mt19937(20261123)");
    std::vector<int64_t> sizes(1 + random() % 150);
    for (int64_t& size : sizes) size = 1 + random() % (random() % 3 == 0 ? 3 : 100);
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    std::vector<double> weights;
    for (const int64_t size : sizes)
      weights.push_back(static_cast<double>(size) / static_cast<double>(total));
    const BlendingIndex index = build_exhaustive_blending_index(sizes);
    const auto expected = simple_blend(weights, total, sizes);
    EXPECT_EQ(datasets_of(index), expected.first);
    EXPECT_EQ(index.sample_index, expected.second);
    EXPECT_EQ(index.counts, sizes);
  }
}

// Returns the number of samples that could be of several datasets of different weights, each of
// which has given at least `least_count` before; the first one in the list is taken.
int64_t count_ties(const std::vector<double>& weights, const std::vector<int32_t>& datasets,
                   double least_count) {
  std::vector<double> counts(weights.size());
  int64_t num_ties = 0;
  for (size_t k = 0; k < datasets.size(); ++k) {
    const auto chosen = static_cast<size_t>(datasets[k]);
    const double at = std::max(static_cast<double>(k), 1.0);
    const double most = weights[chosen] * at - counts[chosen];
    for (size_t d = 0; d < weights.size() && counts[chosen] >= least_count; ++d) {
      if (weights[d] == weights[chosen] || counts[d] < least_count) continue;
      if (weights[d] * at - counts[d] != most) continue;
      ++num_ties;
      break;
    }
    ++counts[chosen];
  }
  return num_ties;
}

// Weights that are multiples of 2^-10 are multiplied without rounding, so that datasets of
// different weights are behind by exactly the same again and again, with counts up to thousands.
TEST(BlendingIndex, TiesOfDifferentWeightsGoToTheFirstInTheListAtAnyCount) {
  constexpr uint32_t kSeed = 20261124;
  std::mt19937 random(kSeed);
  int64_t num_ties = 0, num_late_ties = 0;
  for (int trial = 0; trial < 40 && !HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of std::mt19937(" + std::to_string(kSeed) +
                 ")");
    std::vector<int64_t> parts;  // of 1024
    for (int64_t rest = 1024; rest > 0; rest -= parts.back())
      parts.push_back(std::min<int64_t>(rest, int64_t{1} << random() % (trial % 4 == 0 ? 5 : 10)));
    std::shuffle(parts.begin(), parts.end(), random);
    std::vector<double> weights;
    std::vector<int64_t> sizes;
    for (const int64_t part : parts) {
      weights.push_back(static_cast<double>(part) / 1024);
      sizes.push_back(part * 8);  // their shares are the same weights
    }
    const BlendingIndex index = build_blending_index(weights, 20'000);
    const auto expected = simple_blend(weights, 20'000);
    EXPECT_EQ(datasets_of(index), expected.first);
    EXPECT_EQ(index.sample_index, expected.second);
    const BlendingIndex all = build_exhaustive_blending_index(sizes);
    const auto expected_all = simple_blend(weights, 8 * 1024, sizes);
    EXPECT_EQ(datasets_of(all), expected_all.first);
    EXPECT_EQ(all.sample_index, expected_all.second);
    num_ties += count_ties(weights, expected.first, 2);
    num_late_ties += count_ties(weights, expected.first, 1000);
  }
  EXPECT_GT(num_ties, 5'000);
  EXPECT_GT(num_late_ties, 100);
}

TEST(BlendingIndex, HasNoLimitOfDatasets) {
  const std::vector<double> weights = normalize_weights(std::vector<double>(40000, 2.0));
  const BlendingIndex index = build_blending_index(weights, 100000);
  const auto& datasets = std::get<std::vector<int32_t>>(index.dataset_index);
  EXPECT_EQ(datasets[39999], 39999);
  EXPECT_EQ(datasets[40000], 0);
  EXPECT_EQ(index.sample_index[99999], 2);

  std::vector<double> distinct(40000);
  std::iota(distinct.begin(), distinct.end(), 1.0);
  distinct = normalize_weights(distinct);
  const BlendingIndex of_distinct = build_blending_index(distinct, 2000);
  const auto expected = simple_blend(distinct, 2000);
  EXPECT_EQ(datasets_of(of_distinct), expected.first);
  EXPECT_EQ(of_distinct.sample_index, expected.second);
}

// Made with NumPy 2.4.6: the sum of 1/1, 1/2, ... 1/n.
TEST(NumpySum, AddsPairwise) {
  const auto harmonic = [](int n) {
    std::vector<double> values;
    for (int i = 1; i <= n; ++i) values.push_back(1.0 / i);
    return numpy_sum(values);
  };
  EXPECT_EQ(harmonic(7), 2.5928571428571425);
  EXPECT_EQ(harmonic(8), 2.7178571428571425);
  EXPECT_EQ(harmonic(100), 5.187377517639621);
  EXPECT_EQ(harmonic(129), 5.440899030573669);
  EXPECT_EQ(harmonic(1000), 7.485470860550345);
  EXPECT_EQ(harmonic(2419), 8.36853185825257);
}

}  // namespace
}  // namespace weft
