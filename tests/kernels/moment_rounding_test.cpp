// Rounding at random keeps the mean, and its random numbers follow from seed, step and place.
#include "kernels/numbers/moment_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/numbers/bfloat16.h"

namespace weft {
namespace {

float rounded(float value, uint32_t random) {
  BFloat16 number;
  number.bits = round_at_random(std::bit_cast<uint32_t>(value), random);
  return static_cast<float>(number);
}

TEST(MomentRounding, KeepsTheMean) {
  for (const float value : {1.0F, 1.00001F, -3.14159F, 1e-20F, 1e-40F, -7.5e37F}) {
    double sum = 0;
    for (uint32_t random = 0; random < 65536; ++random) {
      const float result = rounded(value, random);
      // The distance of two bf16 numbers; denormal ones have all the same.
      ASSERT_LT(std::abs(result - value), std::max(std::abs(value) / 128, 0x1p-133F)) << value;
      sum += static_cast<double>(result);
    }
    EXPECT_DOUBLE_EQ(sum / 65536, static_cast<double>(value));
  }
}

TEST(MomentRounding, LeavesWhatIsNoFiniteNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const uint32_t random : {0U, 1U, 0xffffU}) {
    EXPECT_EQ(rounded(kInfinity, random), kInfinity);
    EXPECT_EQ(rounded(-kInfinity, random), -kInfinity);
    EXPECT_EQ(rounded(0, random), 0);
    for (const uint32_t nan : {0x7fc00000U, 0x7f800001U, 0x7fffffffU, 0xffffffffU})
      EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(nan), random)));
  }
}

TEST(MomentRounding, DrawsOtherNumbersForEachSeedStepBlockAndGroup) {
  std::set<uint32_t> words;
  size_t count = 0;
  for (const uint64_t seed : {1, 2}) {
    for (const int64_t step : {1, 2, 1000}) {
      for (const int32_t block : {0, 1, 70000}) {
        for (const int group : {0, 1, 255}) {
          const PhiloxBlock numbers = moment_random_numbers(seed, step, block, group);
          words.insert(std::begin(numbers.word), std::end(numbers.word));
          count += 4;
        }
      }
    }
  }
  EXPECT_EQ(words.size(), count);
}

}  // namespace
}  // namespace weft
