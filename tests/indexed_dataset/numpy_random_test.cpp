// Expected values: NumPy 1.24.2, numpy.random.RandomState(seed).shuffle(numpy.arange(n)).
#include "indexed_dataset/samples/numpy_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/indexed_dataset/md5.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

template <typename T = int32_t>
std::vector<T> shuffled_range(RandomState& random, size_t size) {
  std::vector<T> values(size);
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(values);
  return values;
}

template <typename T = int32_t>
std::vector<T> shuffled_range(uint32_t seed, size_t size) {
  RandomState random(seed);
  return shuffled_range<T>(random, size);
}

TEST(RandomState, ShufflesAsNumpy) {
  EXPECT_THAT(shuffled_range(0, 10), ElementsAre(2, 8, 4, 9, 1, 6, 7, 3, 0, 5));
  EXPECT_THAT(shuffled_range(42, 10), ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6));
  EXPECT_THAT(shuffled_range(1234, 10), ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
}

TEST(RandomState, ContinuesItsStreamFromShuffleToShuffle) {
  RandomState random(1234);
  EXPECT_THAT(shuffled_range(random, 5), ElementsAre(4, 0, 1, 2, 3));
  EXPECT_THAT(shuffled_range(random, 7), ElementsAre(5, 2, 6, 3, 1, 0, 4));
  EXPECT_THAT(shuffled_range(random, 3), ElementsAre(2, 0, 1));
}

TEST(RandomState, PermutationDoesNotDependOnTheType) {
  EXPECT_THAT(shuffled_range<uint32_t>(42, 10), ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6));
  EXPECT_THAT(shuffled_range<int64_t>(42, 10), ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6));
}

TEST(RandomState, ShufflesLargeArraysAsNumpy) {
  EXPECT_EQ(md5_of(shuffled_range(1234, 1000000)), "399e17340f2524b6a6564bb83429446e");
  EXPECT_EQ(md5_of(shuffled_range(42, 1000003)), "62f9ce7f18122404ae6a7d9169ffd6bb");
}

TEST(RandomState, LeavesArraysOfNoneAndOneAloneWithoutADraw) {
  RandomState random(1234);
  EXPECT_TRUE(shuffled_range(random, 0).empty());
  EXPECT_THAT(shuffled_range(random, 1), ElementsAre(0));
  EXPECT_THAT(shuffled_range(random, 5), ElementsAre(4, 0, 1, 2, 3));
}

TEST(RandomState, DrawsTheUpperWordFirstBeyond32Bits) {
  // The first outputs of seed 1234 are 822569775 2137449171 2671936806.
  EXPECT_EQ(RandomState(1234).bounded(0xffffffff), 822569775u);
  EXPECT_EQ(RandomState(1234).bounded(~uint64_t{0}), (uint64_t{822569775} << 32) + 2137449171u);
  EXPECT_EQ(RandomState(1234).bounded(0), 0u);
}

}  // namespace
}  // namespace weft
