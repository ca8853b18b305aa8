#include "indexed_dataset/order/samples/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace weft {
namespace {

using Ranges = std::array<std::optional<SequenceRange>, 3>;

TEST(Split, FollowsMegatronCoreAtTheBounds) {
  EXPECT_EQ(split_ranges("949,50,1", 10), (Ranges{{{{0, 9}}, {{9, 10}}, {{10, 10}}}}));
  EXPECT_EQ(split_ranges("949,50,1", 79000),
            (Ranges{{{{0, 74971}}, {{74971, 78921}}, {{78921, 79000}}}}));
  EXPECT_EQ(split_ranges("98,2,0", 79000),
            (Ranges{{{{0, 77420}}, {{77420, 79000}}, std::nullopt}}));
  EXPECT_EQ(split_ranges("99,1,0", 79000)[0], (SequenceRange{0, 78210}));
  // The older Megatron rule gives 288714672 and 243384339 here.
  const auto oscar = split_ranges("949,50,1", 304230423);
  EXPECT_EQ(oscar[0], (SequenceRange{0, 288714671}));
  EXPECT_EQ(oscar[1], (SequenceRange{288714671, 303926193}));
  EXPECT_EQ(oscar[2], (SequenceRange{303926193, 304230423}));
  EXPECT_EQ(split_ranges("8,1,1", 304230423)[0], (SequenceRange{0, 243384338}));
}

TEST(Split, RoundsHalvesToEven) {
  EXPECT_EQ(split_ranges("1,1", 5)[0], (SequenceRange{0, 2}));
  EXPECT_EQ(split_ranges("1,1", 7)[0], (SequenceRange{0, 4}));
}

TEST(Split, ZeroWeightsGiveNoRange) {
  EXPECT_EQ(split_ranges("100", 7), (Ranges{{{{0, 7}}, std::nullopt, std::nullopt}}));
  EXPECT_EQ(split_ranges("0,0,5", 7), (Ranges{{std::nullopt, std::nullopt, {{0, 7}}}}));
  EXPECT_EQ(split_ranges("1,0,1", 8), (Ranges{{{{0, 4}}, std::nullopt, {{4, 8}}}}));
}

TEST(Split, AcceptsMegatronsSpellings) {
  for (const char* text :
       {"949/50/1", "949 50 1", "949, 50, 1", "[949,50,1]", "949.,50.0,1", "0.949,.050,.001"}) {
    EXPECT_EQ(split_ranges(text, 79000)[0], (SequenceRange{0, 74971})) << text;
  }
}

TEST(Split, RefusesWhatIsNoSplitAndSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "has no number"},
      {",,", "has no number"},
      {"0,0,0", "add up to 0"},
      {"90,-5,15", "negative weight -5"},
      {"90,x,1", "x is not a number"},
      {"1.2.3", "1.2.3 is not a number"},
      {".", ". is not a number"},
      {"1,2,3,4", "4 numbers, more than three"},
      {"1e-3,1", "1e-3 is not a number"},
      {"nan,1", "nan is not a number"},
      {"inf", "inf is not a number"},
  };
  for (const auto& [text, why] : cases) {
    try {
      split_ranges(text, 100);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("--split '" + std::string(text) + "'"));
    }
  }
}

TEST(Split, IsTheSameInOtherWords) {
  EXPECT_TRUE(is_same_split("969,30,1", "969, 30, 1"));
  EXPECT_TRUE(is_same_split("98/2", "98,2,0"));
  EXPECT_FALSE(is_same_split("98,2,0", "49,1,0"));
}

}  // namespace
}  // namespace weft
