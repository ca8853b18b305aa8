// Every pattern finds the pieces that a plain interpreter of it finds, whatever the size of the
// batches, and tells safe places to cut a text.
#include "tokenizer/split/split_pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/pattern_interpreter.h"
#include "tests/tokenizer/split_kinds.h"
#include "tokenizer/split/split_patterns.h"
#include "tokenizer/unicode/utf8.h"

namespace weft {
namespace {

std::vector<std::string> pieces_of(const SplitPattern& pattern, std::string_view text,
                                   size_t max_pieces = kSplitBatch) {
  std::vector<std::string> pieces;
  std::vector<size_t> ends(max_pieces);
  for (size_t begin = 0; begin < text.size();) {
    const size_t num_pieces = pattern.split(text, begin, ends.data(), max_pieces);
    for (size_t i = 0; i < num_pieces; ++i) {
      pieces.emplace_back(text.substr(begin, ends[i] - begin));
      begin = ends[i];
    }
  }
  return pieces;
}

class EveryPattern : public testing::TestWithParam<SplitKind> {
 protected:
  const SplitPattern& pattern() const { return *pattern_; }

  void expect_interpreted(const std::string& text) const {
    ASSERT_EQ(pieces_of(pattern(), text, 1), test::interpreted_pieces(GetParam(), text))
        << "seed " << kSeed << ", text " << testing::PrintToString(text);
  }

  void expect_same_when_cut(const std::string& text, size_t at) const {
    std::vector<std::string> joined = pieces_of(pattern(), text.substr(0, at));
    for (const std::string& piece : pieces_of(pattern(), text.substr(at))) joined.push_back(piece);
    ASSERT_EQ(joined, pieces_of(pattern(), text)) << "cut at " << at;
  }

  std::string random_text(size_t num_units) {
    static const std::vector<std::string> units = {
        "a",          "b",      "Z",        "1",      "22",     " ",       "  ",     "\n",
        "\t",         ".",      "'",        "'s",     "'re",    "'l",      "don't",  "-",
        "\r",         "word",   "\u00e9",   "\u4e2d", "\u3000", "\u00a0",  "\u2028", "\u0301",
        "\U0001F600", "_",      "aaaaaaaa", "/",      "!\n",    "\n \n\t", "A'LL",   "Bc",
        "\u00c9",     "'S",     "'\u017F",  "333",    "(",      "|",       ",",      "\u3002",
        "\u0e01",     "\u0e31", "\u30fb",   "\u3040", "\x01",   "$",       "\u00bd", "\u2167",
        "\xE4",       "\x80",   "\u00f2",   "\u20bd", "\u01c5", "\u02b0",  "\u2e5d", "\u200b"};
    std::string text;
    for (size_t i = 0; i < num_units; ++i) text += units[random_() % units.size()];
    return text;
  }

  // Any characters, most of them below U+3100, where nearly all classes are.
  std::string random_characters(size_t num_chars) {
    std::string text;
    for (size_t i = 0; i < num_chars; ++i) {
      static constexpr uint32_t kLimits[] = {0x80, 0x80, 0x250, 0x700, 0x3100, 0x110000};
      const uint32_t c = static_cast<uint32_t>(random_()) % kLimits[random_() % 6];
      append_utf8(c >= 0xD800 && c < 0xE000 ? ' ' : c, text);
    }
    return text;
  }

  static constexpr unsigned kSeed = 29;
  std::mt19937 random_{kSeed};
  std::shared_ptr<const SplitPattern> pattern_ = make_split_pattern(GetParam());
};

TEST_P(EveryPattern, FindsThePiecesOfThePlainInterpreter) {
  for (int round = 0; round < 4000; ++round) {
    expect_interpreted(random_text(1 + random_() % 12));
    expect_interpreted(random_characters(1 + random_() % 12));
    if (HasFatalFailure()) return;
  }
}

// All texts of three units that patterns name.
TEST_P(EveryPattern, FindsThePiecesOfThePlainInterpreterInEveryShortText) {
  const std::vector<std::string> units = {"a",  "B", "1",      "'",      "s",      " ",    "\n",
                                          "\t", "!", "/",      "\u4e2d", "\u0301", "\x01", "(",
                                          ".",  "$", "\u30fb", "\u3000", "\u00bd"};
  for (const std::string& first : units) {
    for (const std::string& second : units) {
      for (const std::string& third : units) {
        expect_interpreted(first + second + third);
        expect_interpreted(first + second + third + third + first);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(EveryPattern, FindsTheSamePiecesInBatchesOfAnySize) {
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random_() % 200);
    const std::vector<std::string> expected = pieces_of(pattern(), text, 1);
    std::string joined;
    for (const std::string& piece : expected) joined += piece;
    ASSERT_EQ(joined, text);
    for (const size_t max_pieces : {3, 64, 100, 256})
      ASSERT_EQ(pieces_of(pattern(), text, max_pieces), expected);
  }
}

TEST_P(EveryPattern, TakesLinearTimeForRunsOfAnything) {
  for (const std::string unit : {"a", "A", "\u4e2d", "\u0301", "1", " ", "\n", "!", "'", "\u00f2",
                                 "\x01", "\x80", "A\u4e2d", " \n", "\u00bd", "'s", "!\u0301"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    EXPECT_GT(pieces_of(pattern(), text, 1).size(), 0u);
  }
}

TEST_P(EveryPattern, ASafeCutChangesNoPiece) {
  size_t num_cuts = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(2 + random_() % 20);
    for (size_t at = 1; at < text.size(); ++at) {
      if (!pattern().is_safe_cut(text, at)) continue;
      ++num_cuts;
      expect_same_when_cut(text, at);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(num_cuts, 1000u);
  EXPECT_TRUE(pattern().is_safe_cut("a word", 1));
  EXPECT_FALSE(pattern().is_safe_cut("a word", 2));
}

INSTANTIATE_TEST_SUITE_P(Of, EveryPattern, testing::ValuesIn(test::kSplitKinds),
                         [](const auto& kind) { return test::name_of(kind.param); });

TEST(SplitPatterns, OnlyGpt2sIsThereForUnicode15) {
  const std::string text = "a\U0002EBF0 \u1C89b";
  const auto of_15 = make_split_pattern(SplitKind::kGpt2, UnicodeVersion::k15);
  EXPECT_EQ(pieces_of(*of_15, text),
            test::interpreted_pieces(SplitKind::kGpt2, text, UnicodeVersion::k15));
  EXPECT_NE(pieces_of(*of_15, text), pieces_of(*make_split_pattern(SplitKind::kGpt2), text));
  EXPECT_THROW(make_split_pattern(SplitKind::kLlama3, UnicodeVersion::k15), std::invalid_argument);
}

}  // namespace
}  // namespace weft
