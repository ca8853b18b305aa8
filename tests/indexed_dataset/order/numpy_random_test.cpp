// Expected values: NumPy 1.24.2, numpy.random.RandomState(seed).shuffle(numpy.arange(n)).
#include "indexed_dataset/order/samples/numpy_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>
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

// A draw and a swap at a time.
class SimpleRandomState {
 public:
  explicit SimpleRandomState(uint32_t seed) : engine_(seed) {}
  uint64_t bounded(uint64_t max) {
    for (;;) {
      uint64_t value = engine_();
      if (max > 0xffffffff) value = value << 32 | engine_();
      value &= ~uint64_t{0} >> std::countl_zero(max);
      if (value <= max) return value;
    }
  }
  std::vector<int32_t> shuffled_range(size_t size) {
    std::vector<int32_t> values(size);
    std::iota(values.begin(), values.end(), 0);
    for (size_t last = size; last-- > 1;) std::swap(values[last], values[bounded(last)]);
    return values;
  }

 private:
  std::mt19937 engine_;
};

TEST(Mt19937, GivesTheWordsOfTheStandardLibrary) {
  for (const uint32_t seed : {0U, 1U, 1234U, 0xffffffffU}) {
    Mt19937 ours(seed);
    std::mt19937 theirs(seed);
    for (int i = 0; i < 5000; ++i)
      ASSERT_EQ(ours(), theirs()) << "word " << i << " of seed " << seed;
  }
}

TEST(RandomState, EqualsTheSimpleShuffle) {
  std::mt19937 sizes(20261123);
  for (int trial = 0; trial < 600 && !HasFailure(); ++trial) {
    // Around powers of two, where the mask changes, and around whole blocks.
    const size_t size =
        trial < 300 ? static_cast<size_t>(trial) : sizes() % (trial < 590 ? 3000 : 200'000);
    SCOPED_TRACE("seed " + std::to_string(trial) + ", size " + std::to_string(size));
    const auto seed = static_cast<uint32_t>(trial);
    RandomState ours(seed), skipping(seed);
    SimpleRandomState simple(seed);
    EXPECT_EQ(shuffled_range(ours, size), simple.shuffled_range(size));
    skipping.skip_shuffle(size);
    const uint64_t next = simple.bounded(0xffffffff);
    EXPECT_EQ(ours.bounded(0xffffffff), next);
    EXPECT_EQ(skipping.bounded(0xffffffff), next);
  }
}

TEST(RandomState, DrawsPartnersAcross32Bits) {
  constexpr uint64_t kLast = (uint64_t{1} << 32) + 500;
  std::vector<uint64_t> partners(1500);
  RandomState(7).draw_partners(kLast, partners);
  SimpleRandomState simple(7);
  for (size_t k = 0; k < partners.size(); ++k)
    ASSERT_EQ(partners[k], simple.bounded(kLast - k)) << k;
}

}  // namespace
}  // namespace weft
