// Options and the names that people meant.
#include <gtest/gtest.h>

#include "indexed_dataset/base/process/nearest_name.h"
#include "indexed_dataset/base/terminal/option_set.h"

namespace weft {
namespace {

TEST(Options, IntegersMayHoldUnderscores) {
  EXPECT_EQ(parse_int64("300_000_000"), 300000000);
  EXPECT_EQ(parse_int64("-5"), -5);
  EXPECT_EQ(parse_int64("9223372036854775807"), INT64_MAX);
  for (const char* text :
       {"", "_1", "1_", "1__0", "1.5", "1e3", "9223372036854775808", "12k", " 1", "-_1"}) {
    EXPECT_EQ(parse_int64(text), std::nullopt) << text;
  }
}

TEST(Options, NearestNameIsFoundOnlyWhenNear) {
  const std::vector<std::string> names{"--input", "--workers", "--output-prefix"};
  EXPECT_EQ(nearest_name("--wrokers", names), "--workers");
  EXPECT_EQ(nearest_name("--output_prefix", names), "--output-prefix");
  EXPECT_EQ(nearest_name("--banana", names), "");
  // Another word is another option, however near its letters are.
  EXPECT_EQ(nearest_name("--output-profile", names), "");
  EXPECT_EQ(nearest_name("--more-workers", names), "");
  EXPECT_EQ(nearest_name("--outputprefix", names), "--output-prefix");
  EXPECT_EQ(nearest_name("--fp4-format", {"--fp8-format"}), "");
}

}  // namespace
}  // namespace weft
