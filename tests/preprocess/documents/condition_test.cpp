#include "preprocess/documents/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/documents/line_reader.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The reason why a line with these members is left out; "" if it goes in. Both readers of JSON must
// agree: the second line is one that simdjson gives up.
std::string why_out(const std::string& where, const std::string& members) {
  const Condition condition = parse_condition(where);
  std::string reason;
  for (const char* more : {"", R"(,"nan":NaN)"}) {
    const std::string line =
        R"({"text":"a")" + (members.empty() ? "" : "," + members) + more + "}\n";
    LineChunk chunk;
    chunk.buffer.assign(line.begin(), line.end());
    chunk.size_bytes = line.size();
    LineReader reader({"text"}, kNoOriginKey, 1000, condition);
    reader.open(chunk);
    EXPECT_TRUE(reader.next());
    EXPECT_EQ(reader.outcome().problem, LineProblem::kNone) << line;
    LeftOutCounts counts;
    const bool goes_in = holds(condition, reader, counts);
    EXPECT_EQ(counts.total(), goes_in ? 0 : 1);
    const auto reasons = counts.reasons(condition);
    EXPECT_EQ(reasons.size(), goes_in ? 0U : 1U);
    const std::string found = goes_in || reasons.empty() ? "" : reasons[0].first;
    EXPECT_TRUE(*more == '\0' || found == reason) << line << found << reason;
    reason = found;
  }
  return reason;
}

TEST(Condition, ComparesNumbers) {
  EXPECT_EQ(why_out("n >= 0.65", R"("n":0.65)"), "");
  EXPECT_EQ(why_out("n >= 0.65", R"("n":1)"), "");
  EXPECT_EQ(why_out("n >= 0.65", R"("n":0.6499999999999999)"), "n >= 0.65");
  EXPECT_EQ(why_out("n > 0.65", R"("n":0.65)"), "n > 0.65");
  EXPECT_EQ(why_out("n<=-1e3", R"("n":-1000)"), "");
  EXPECT_EQ(why_out("n<3", R"("n":3.0)"), "n < 3");
  EXPECT_EQ(why_out("n==3", R"("n":3.0)"), "");
  EXPECT_EQ(why_out("n != 3", R"("n":3)"), "n != 3");
  EXPECT_EQ(why_out("n == 3", R"("n":{"a":3})"), "n == 3, a value of another kind");
}

// A double would take neighbours for equal.
TEST(Condition, ComparesIntegersOf64BitsExactly) {
  EXPECT_EQ(why_out("n == 9007199254740993", R"("n":9007199254740993)"), "");
  EXPECT_NE(why_out("n == 9007199254740993", R"("n":9007199254740992)"), "");
  EXPECT_EQ(why_out("n > 18446744073709551614", R"("n":18446744073709551615)"), "");
  EXPECT_EQ(why_out("n > 1e300", R"("n":1e400)"), "");
}

TEST(Condition, ComparesTextsByTheirBytes) {
  EXPECT_EQ(why_out("lang == 'en'", R"("lang":"en")"), "");
  EXPECT_EQ(why_out("lang == \"en\"", R"("lang":"\u0065n")"), "");
  EXPECT_EQ(why_out("lang != 'en'", R"("lang":"en")"), "lang != 'en'");
  EXPECT_EQ(why_out("date >= '2020-01-01'", R"("date":"2019-12-31")"), "date >= '2020-01-01'");
  EXPECT_EQ(why_out("date >= '2020-01-01'", R"("date":"2020-01-01T00:00:00Z")"), "");
  EXPECT_EQ(why_out(R"(a == 'it\'s \\ "so"')", R"("a":"it's \\ \"so\"")"), "");
  EXPECT_EQ(why_out("a == 'é'", R"("a":"\u00e9")"), "");
}

TEST(Condition, KeepsKindsApart) {
  EXPECT_EQ(why_out("n >= 3", R"("n":"4")"), "n >= 3, a value of another kind");
  EXPECT_EQ(why_out("n == '4'", R"("n":4)"), "n == '4', a value of another kind");
  EXPECT_EQ(why_out("n == 1", R"("n":true)"), "n == 1, a value of another kind");
  EXPECT_EQ(why_out("n != 1", R"("n":"1")"), "");
  EXPECT_EQ(why_out("n == true", R"("n":true)"), "");
  EXPECT_EQ(why_out("n == false", R"("n":true)"), "n == false");
  EXPECT_EQ(why_out("n == null", R"("n":null)"), "");
  EXPECT_EQ(why_out("n == null", R"("n":0)"), "n == null");
  EXPECT_EQ(why_out("n != null", R"("n":0)"), "");
  EXPECT_EQ(why_out("n != null", R"("n":null)"), "n != null");
}

TEST(Condition, CountsMissingKeysApart) {
  EXPECT_EQ(why_out("n != 3", ""), "n != 3, without the key");
  EXPECT_EQ(why_out("n == null", ""), "n == null, without the key");
  EXPECT_EQ(why_out("meta.n == 1", R"("meta":[1])"), "meta.n == 1, without the key");
}

TEST(Condition, FindsNestedKeysAsJsonKeysDoes) {
  EXPECT_EQ(why_out("meta.n == 1", R"("meta":{"n":1})"), "");
  EXPECT_EQ(why_out("meta.n == 2", R"("meta":{"n":1},"meta.n":2)"), "");
  EXPECT_EQ(why_out(R"(meta.a\.b == 1)", R"("meta":{"a.b":1})"), "");
}

TEST(Condition, NamesTheFirstComparisonThatDoesNotHold) {
  const std::string where = "a > 1  and b=='x' and\tc <= 2";
  EXPECT_EQ(to_string(parse_condition(where)), "a > 1 and b == 'x' and c <= 2");
  EXPECT_EQ(why_out(where, R"("a":2,"b":"x","c":2)"), "");
  EXPECT_EQ(why_out(where, R"("a":2,"b":"y","c":3)"), "b == 'x'");
  EXPECT_EQ(why_out(where, R"("b":"y","c":3)"), "a > 1, without the key");
}

TEST(Condition, AddsUpCounts) {
  const Condition condition = parse_condition("a > 1 and b > 1");
  LeftOutCounts some, others;
  EXPECT_EQ(some.summary(condition), "left out by --where: 0 documents");
  some.add(0, LeftOutBecause::kValue);
  others.add(1, LeftOutBecause::kNoKey);
  others.add(1, LeftOutBecause::kNoKey);
  some.add(others);
  EXPECT_EQ(some.summary(condition),
            "left out by --where: 3 documents (a > 1: 1; b > 1, without the key: 2)");
}

TEST(Condition, SaysWhatIsWrongWithIt) {
  const auto error = [](const char* where) -> std::string {
    try {
      (void)parse_condition(where);
    } catch (const UsageError& wrong) {
      return wrong.what();
    }
    return "";
  };
  EXPECT_THAT(error("a >= 0.5"), IsEmpty());
  EXPECT_THAT(error(""), HasSubstr("--where: what follows the end is no key"));
  EXPECT_THAT(error("a = 1"), HasSubstr("'= 1' has one =, for equal values there are two: =="));
  EXPECT_THAT(error("a"), HasSubstr("what follows the end is none of == != < <= > >="));
  EXPECT_THAT(error("lang == en"), HasSubstr("'en' is no number"));
  EXPECT_THAT(error("a == 1x"), HasSubstr("'1x' is no number"));
  EXPECT_THAT(error("a == 1 or b == 2"), HasSubstr("'or b == 2' is not `and`"));
  EXPECT_THAT(error("a == 1 and"), HasSubstr("what follows the end is no key"));
  EXPECT_THAT(error("a == 'x"), HasSubstr("''x' is a text without a quote at its end"));
  EXPECT_THAT(error("a > null"), HasSubstr("'null' has no order"));
  EXPECT_THAT(error("'en' == lang"), HasSubstr("is a text, where a key is wanted"));
  EXPECT_THAT(error("a..b == 1"), HasSubstr("--where: 'a..b' has an empty key"));
}

}  // namespace
}  // namespace weft
