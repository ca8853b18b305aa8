#include "indexed_dataset/base/process/json_integer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace weft {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Returns what is said of the document {"n": VALUE}, or nothing where its integer is taken.
std::string integer_error_of(const std::string& value) {
  try {
    json_integer_at(Json::parse("{\"n\": " + value + "}"), "n");
    return "";
  } catch (const NotAnInteger& error) {
    return error.what();
  }
}

TEST(JsonInteger, TakesEveryIntegerThatFits) {
  for (const int64_t value : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX})
    EXPECT_EQ(json_integer(Json::parse(std::to_string(value))), value);
}

// get<int64_t>() of the library gives 3, -1, or what the conversion of 1e300 happens to give.
TEST(JsonInteger, RefusesWhatIsNoneOrDoesNotFit) {
  EXPECT_THAT(integer_error_of("3.5"), HasSubstr("\"n\": an integer was expected, not 3.5"));
  EXPECT_THAT(integer_error_of("1e300"), HasSubstr("not 1e+300"));
  EXPECT_THAT(integer_error_of("99999999999999999999"), HasSubstr("not 1e+20"));
  EXPECT_THAT(integer_error_of("18446744073709551615"), HasSubstr("not 18446744073709551615"));
  EXPECT_THAT(integer_error_of("9223372036854775808"), HasSubstr("not 9223372036854775808"));
  for (const char* value : {"true", "null", "\"1\"", "[1]", "{}"})
    EXPECT_THAT(integer_error_of(value), HasSubstr("not a value of type ")) << value;
}

TEST(JsonInteger, FindsNothingWhereItIsAbsentOrNull) {
  const Json object = Json::parse(R"({"a": 5, "b": null, "c": 2.5})");
  EXPECT_EQ(find_json_integer(object, "a"), 5);
  EXPECT_EQ(find_json_integer(object, "b"), std::nullopt);
  EXPECT_EQ(find_json_integer(object, "d"), std::nullopt);
  EXPECT_THROW(find_json_integer(object, "c"), NotAnInteger);
}

TEST(JsonInteger, ListsHoldIntegersOnly) {
  const auto integers = [](const std::string& value) {
    return json_integers_at(Json::parse("{\"n\": " + value + "}"), "n");
  };
  EXPECT_EQ(integers("[1, -2, 3]"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(integers("[]"), std::vector<int64_t>());
  EXPECT_THROW(integers("[1, 2.5]"), NotAnInteger);
  EXPECT_THROW(integers(R"({"a": 1})"), NotAnInteger);
  EXPECT_THROW(integers("1"), NotAnInteger);
  EXPECT_THROW(integers("null"), NotAnInteger);
}

}  // namespace
}  // namespace weft
