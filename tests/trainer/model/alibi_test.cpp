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

}  // namespace
}  // namespace weft
