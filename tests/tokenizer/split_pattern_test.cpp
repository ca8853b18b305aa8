// What SplitPattern promises beside the pieces, for every pattern.
#include "tokenizer/split/split_pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tokenizer/split/gpt2_pattern.h"

namespace weft {
namespace {

std::vector<std::string> pieces_of(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string> pieces;
  size_t ends[kSplitBatch];
  for (size_t begin = 0; begin < text.size();) {
    const size_t num_pieces = pattern.split(text, begin, ends, kSplitBatch);
    for (size_t i = 0; i < num_pieces; ++i) {
      pieces.emplace_back(text.substr(begin, ends[i] - begin));
      begin = ends[i];
    }
  }
  return pieces;
}

class EveryPattern : public testing::TestWithParam<const SplitPattern*> {
 protected:
  const SplitPattern& pattern() const { return *GetParam(); }

  void expect_same_when_cut(const std::string& text, size_t at) const {
    std::vector<std::string> joined = pieces_of(pattern(), text.substr(0, at));
    for (const std::string& piece : pieces_of(pattern(), text.substr(at))) joined.push_back(piece);
    ASSERT_EQ(joined, pieces_of(pattern(), text)) << "cut at " << at;
  }

  std::string random_text(size_t num_units) {
    static const std::vector<std::string> units = {
        "a",          "b",    "Z",        "1",      "22",     " ",       "  ",     "\n",
        "\t",         ".",    "'",        "'s",     "'re",    "'l",      "don't",  "-",
        "\r",         "word", "\u00e9",   "\u4e2d", "\u3000", "\u00a0",  "\u2028", "\u0301",
        "\U0001F600", "_",    "aaaaaaaa", "/",      "!\n",    "\n \n\t", "A'LL"};
    std::string text;
    for (size_t i = 0; i < num_units; ++i) text += units[random_() % units.size()];
    return text;
  }

  std::mt19937 random_{29};
};

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
  EXPECT_GT(num_cuts, 3000u);
  EXPECT_TRUE(pattern().is_safe_cut("a word", 1));
  EXPECT_FALSE(pattern().is_safe_cut("a word", 2));
}

const Gpt2Pattern kGpt2Pattern;

INSTANTIATE_TEST_SUITE_P(Of, EveryPattern, testing::Values(&kGpt2Pattern),
                         [](const auto&) { return "Gpt2"; });

}  // namespace
}  // namespace weft
