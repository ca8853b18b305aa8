#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "trainer/model/self_attention.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(Alibi, SlopesOfAPowerOfTwoAreAGeometricSeries) {
  EXPECT_THAT(alibi_slopes(8), ElementsAre(0.5F, 0.25F, 0.125F, 0.0625F, 0.03125F, 0.015625F,
                                           0.0078125F, 0.00390625F));
  EXPECT_THAT(alibi_slopes(1), ElementsAre(0.00390625F));
}

// The values are those of build_alibi_tensor of transformers 5.23.0.
TEST(Alibi, OtherNumbersOfHeadsTakeEverySecondSlopeOfTheNextPower) {
  EXPECT_THAT(alibi_slopes(3), ElementsAre(FloatEq(0.0625F), FloatEq(0.00390625F), FloatEq(0.25F)));
  const std::vector<float> bloom = alibi_slopes(112), of_64 = alibi_slopes(64);
  ASSERT_EQ(bloom.size(), 112U);
  EXPECT_TRUE(std::equal(of_64.begin(), of_64.end(), bloom.begin()));
  EXPECT_FLOAT_EQ(bloom[0], 0.917004049F);
  EXPECT_FLOAT_EQ(bloom[64], 0.957603276F);
  EXPECT_FLOAT_EQ(bloom[111], 0.0163167696F);
}

// The values are those of _compute_llama3_parameters of transformers 5.24.0 for Llama-3.1-8B.
TEST(RotaryPositions, LowFrequenciesOfLlama31AreScaled) {
  ModelShape shape;
  shape.rotary_size = 128;
  shape.rotary_base = 500000;
  const std::vector<float> plain = rotary_frequencies(shape);
  shape.rope_scaling_factor = 8;
  const std::vector<float> scaled = rotary_frequencies(shape);
  ASSERT_EQ(scaled.size(), 64U);
  const std::pair<size_t, float> expected[] = {{0, 1.0F},
                                               {20, 0.016560440883F},
                                               {28, 0.00321144610643F},  // as they were
                                               {29, 0.0021665706F},
                                               {30, 0.0013718937F},
                                               {32, 0.00052484602F},  // blended
                                               {34, 0.00017850779F},
                                               {35, 9.5562122e-05F},
                                               {63, 3.0689259e-07F}};  // divided by 8
  for (const auto& [pair, frequency] : expected)
    EXPECT_NEAR(scaled[pair], frequency, 1e-6F * frequency) << pair;
  EXPECT_EQ(scaled[20], plain[20]);
  EXPECT_EQ(scaled[63], plain[63] / 8);
}

}  // namespace
}  // namespace weft
