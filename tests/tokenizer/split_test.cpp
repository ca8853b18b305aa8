// GPT-2's pattern, case by case.
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "tokenizer/split/split_patterns.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Asks for `max_pieces` at a time: the cut must not depend on it.
std::vector<std::string> pieces(std::string_view text, size_t max_pieces = kSplitBatch) {
  std::vector<std::string> result;
  std::vector<size_t> ends(max_pieces);
  size_t begin = 0;
  static const auto pattern = make_split_pattern(SplitKind::kGpt2);
  while (const size_t num_pieces = pattern->split(text, begin, ends.data(), max_pieces)) {
    for (size_t i = 0; i < num_pieces; ++i) {
      result.emplace_back(text.substr(begin, ends[i] - begin));
      begin = ends[i];
    }
  }
  return result;
}

TEST(Split, CutsContractionsOnlyWhereAPieceStarts) {
  EXPECT_THAT(pieces("it's we're"), ElementsAre("it", "'s", " we", "'re"));
  EXPECT_THAT(pieces("I'm you've they'll he'd don't"),
              ElementsAre("I", "'m", " you", "'ve", " they", "'ll", " he", "'d", " don", "'t"));
  EXPECT_THAT(pieces("'tis"), ElementsAre("'t", "is"));
  EXPECT_THAT(pieces(" 's"), ElementsAre(" '", "s"));
  EXPECT_THAT(pieces("''s"), ElementsAre("''", "s"));
  EXPECT_THAT(pieces("x's's"), ElementsAre("x", "'s", "'s"));
  EXPECT_THAT(pieces("2's"), ElementsAre("2", "'s"));
}

TEST(Split, KnowsOnlyLowerCaseContractionsWithAsciiApostrophe) {
  EXPECT_THAT(pieces("IT'S WE'LL"), ElementsAre("IT", "'", "S", " WE", "'", "LL"));
  EXPECT_THAT(pieces("it\u2019s"), ElementsAre("it", "\u2019", "s"));
  EXPECT_THAT(pieces("a'l a'r a'v"), ElementsAre("a", "'", "l", " a", "'", "r", " a", "'", "v"));
  EXPECT_THAT(pieces("a'"), ElementsAre("a", "'"));
  EXPECT_THAT(pieces("'re"), ElementsAre("'re"));
}

TEST(Split, LeavesTheLastWhiteSpaceOfARunToTheNextPiece) {
  EXPECT_THAT(pieces("a b"), ElementsAre("a", " b"));
  EXPECT_THAT(pieces("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(pieces("x\n\n y"), ElementsAre("x", "\n\n", " y"));
  EXPECT_THAT(pieces("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(pieces("a\tb"), ElementsAre("a", "\t", "b"));
  EXPECT_THAT(pieces("a \tb"), ElementsAre("a", " ", "\t", "b"));
  EXPECT_THAT(pieces("a\t b"), ElementsAre("a", "\t", " b"));
  EXPECT_THAT(pieces("   !"), ElementsAre("  ", " !"));
}

TEST(Split, KeepsWhiteSpaceAtTheEndInOnePiece) {
  EXPECT_THAT(pieces("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(pieces("a \n\t "), ElementsAre("a", " \n\t "));
  EXPECT_THAT(pieces(" "), ElementsAre(" "));
  EXPECT_THAT(pieces("\n"), ElementsAre("\n"));
}

TEST(Split, JoinsOnlyU0020ToTheNextWord) {
  EXPECT_THAT(pieces("a\u00A0b"), ElementsAre("a", "\u00A0", "b"));
  EXPECT_THAT(pieces("a \u00A0 b"), ElementsAre("a", " \u00A0", " b"));
  EXPECT_THAT(pieces("a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000", "b"));
  EXPECT_THAT(pieces("a\u0085b"), ElementsAre("a", "\u0085", "b"));
}

TEST(Split, CountsWhatOnlyLooksLikeWhiteSpaceAsOther) {
  EXPECT_THAT(pieces("a\x1C\x1D b"), ElementsAre("a", "\x1C\x1D", " b"));
  EXPECT_THAT(pieces("a\u180E.b"), ElementsAre("a", "\u180E.", "b"));
  EXPECT_THAT(pieces("\uFEFFa \u200Bb"), ElementsAre("\uFEFF", "a", " \u200B", "b"));
}

TEST(Split, SeparatesLettersNumbersAndTheRest) {
  EXPECT_THAT(pieces("x86 1,000 3rd"), ElementsAre("x", "86", " 1", ",", "000", " 3", "rd"));
  EXPECT_THAT(pieces("1234567890123"), ElementsAre("1234567890123"));
  EXPECT_THAT(pieces("snake_case"), ElementsAre("snake", "_", "case"));
  EXPECT_THAT(pieces("e\u0301a"), ElementsAre("e", "\u0301", "a"));
  EXPECT_THAT(pieces("na\u00EFve \u4E2D\u6587\u3002"),
              ElementsAre("na\u00EFve", " \u4E2D\u6587", "\u3002"));
  EXPECT_THAT(pieces("a\u00B2 \u0663"), ElementsAre("a", "\u00B2", " \u0663"));
  EXPECT_THAT(pieces(" \U0001F600!"), ElementsAre(" \U0001F600!"));
}

TEST(Split, TakesBytesThatAreNotUtf8AsOther) {
  EXPECT_THAT(pieces("a\xFF\xFE b"), ElementsAre("a", "\xFF\xFE", " b"));
  EXPECT_THAT(pieces("a\xC3"), ElementsAre("a", "\xC3"));                        // cut character
  EXPECT_THAT(pieces("a\xED\xA0\x80z"), ElementsAre("a", "\xED\xA0\x80", "z"));  // surrogate
  EXPECT_THAT(pieces("a\xC1\x81z"), ElementsAre("a", "\xC1\x81", "z"));          // overlong A
  EXPECT_THAT(pieces("a\xE0\x81\x81z"), ElementsAre("a", "\xE0\x81\x81", "z"));
  EXPECT_THAT(pieces("a\xF4\x90\x80\x80z"), ElementsAre("a", "\xF4\x90\x80\x80", "z"));
  EXPECT_THAT(pieces(""), IsEmpty());
}

TEST(Split, CoversAnyBytesAndDoesNotDependOnTheBatch) {
  std::mt19937 random(7);
  const std::string alphabet = "ab1 \n'st.\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) text += alphabet[random() % alphabet.size()];
    const std::vector<std::string> expected = pieces(text, 1000);
    std::string joined;
    for (const std::string& piece : expected) {
      ASSERT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
    ASSERT_EQ(pieces(text, 1), expected);
    ASSERT_EQ(pieces(text, 3), expected);
  }
}

}  // namespace
}  // namespace weft
