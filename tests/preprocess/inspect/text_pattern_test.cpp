// Patterns in texts: regular expressions, and texts byte for byte.
#include "preprocess/inspect/text/text_pattern.h"

#include <gmock/gmock.h>
#include <re2/re2.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace weft {
namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const TextPattern expression(pattern, /*is_fixed=*/false);
  std::vector<std::string> found;
  for (auto match = expression.find(text); match; match = expression.find(text, match->end)) {
    if (match->begin == match->end) throw std::logic_error("a match without a byte");
    found.push_back(text.substr(match->begin, match->end - match->begin));
  }
  EXPECT_EQ(expression.count(text), std::ssize(found)) << pattern;
  EXPECT_EQ(expression.is_in(text), !found.empty()) << pattern;
  return found;
}

TEST(TextPattern, IsARegularExpression) {
  using testing::ElementsAre;
  EXPECT_THAT(matches("f.x", "fox fix f\nx"), ElementsAre("fox", "fix"));
  EXPECT_THAT(matches("(?i)STRASSE|\u00c4", "Strasse \u00e4 \u00c4"),
              ElementsAre("Strasse", "\u00e4", "\u00c4"));
  EXPECT_THAT(matches(R"(\\{3,})", R"(a\\b\\\\c)"), ElementsAre(R"(\\\\)"));
  EXPECT_THAT(matches("[\u00e9\u00e8]t", "\u00e9t\u00e8t\u00eat"),
              ElementsAre("\u00e9t", "\u00e8t"));
}

TEST(TextPattern, AnchorsStandAtTheEndsOfLines) {
  using testing::ElementsAre;
  EXPECT_THAT(matches("^a.$", "ab\nac\nxad\nae"), ElementsAre("ab", "ac", "ae"));
  EXPECT_THAT(matches("(?-m)^a.", "ab\nac"), ElementsAre("ab"));
  EXPECT_THAT(matches(R"(\Aa.)", "ab\nac"), ElementsAre("ab"));
  // The search that goes on behind a match is not at the beginning of a line, nor of a word.
  EXPECT_THAT(matches("^a", "aaa\na"), ElementsAre("a", "a"));
  EXPECT_THAT(matches(R"(\ba)", "aaa a"), ElementsAre("a", "a"));
}

TEST(TextPattern, CountsMatchesWithoutABytePerCharacter) {
  EXPECT_EQ(TextPattern("^$", false).count("a\n\nb\n\n"), 3);
  EXPECT_EQ(TextPattern("x*", false).count("\u00e9xx\u00e9"), 4);
}

TEST(TextPattern, IsFoundBetweenBytesThatAreNoUtf8) {
  const std::string text = "\xff\x80 fox \xc3\xff\xe2\x82 caf\u00e9\xfe";
  EXPECT_THAT(matches("f.x", text), testing::ElementsAre("fox"));
  EXPECT_THAT(matches("\u00e9", text), testing::ElementsAre("\u00e9"));
  EXPECT_EQ(TextPattern("\xc3\xff", true).find(text), (TextPattern::Match{7, 9}));
  EXPECT_FALSE(TextPattern("x .*caf", false).is_in(text));  // a broken character is no character
}

TEST(TextPattern, ThatIsNoneIsRefusedInWordsOfRe2) {
  for (const auto& [pattern, words] : {std::pair<std::string, std::string>{"a(b", "missing ): a(b"},
                                       {"[z-a]", "invalid character class range: z-a"},
                                       {"*", "no argument for repetition operator: *"},
                                       {"\xff", "invalid UTF-8"},
                                       {"", "the pattern is empty"}}) {
    try {
      TextPattern(pattern, false);
      ADD_FAILURE() << pattern;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
    if (!pattern.empty()) {
      EXPECT_TRUE(TextPattern(pattern, true).is_in("a(b[z-a]*\xff"));
    }
  }
}

// A quoted text as an expression finds what the fixed text does.
TEST(TextPattern, OfAQuotedTextIsThatText) {
  std::mt19937 random(20261124);
  const std::string letters[] = {"a", "b", "\n", ".", "*", "(", "\\", "\u00e9", "\u20ac"};
  const auto text_of = [&](size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += letters[random() % std::size(letters)];
    return text;
  };
  int num_found = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = text_of(random() % 60), wanted = text_of(1 + random() % 3);
    const TextPattern fixed(wanted, true), quoted(re2::RE2::QuoteMeta(wanted), false);
    ASSERT_EQ(fixed.is_in(text), quoted.is_in(text)) << wanted << " in " << text;
    ASSERT_EQ(fixed.count(text), quoted.count(text)) << wanted << " in " << text;
    const size_t from = random() % (text.size() + 2);
    ASSERT_EQ(fixed.find(text, from), quoted.find(text, from)) << wanted << " in " << text;
    num_found += fixed.is_in(text) ? 1 : 0;
  }
  EXPECT_GT(num_found, 500);
}

}  // namespace
}  // namespace weft
