// The vector splitters against the scalar one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tokenizer/corpus.h"
#include "tests/tokenizer/split_kinds.h"
#include "tokenizer/split/split_patterns.h"

namespace weft {

std::string name_of(Simd simd) {
  return simd == Simd::kAvx2 ? "Avx2" : simd == Simd::kAvx512 ? "Avx512" : "Neon";
}

// GoogleTest prints parameters by this.
void PrintTo(Simd simd, std::ostream* out) { *out << name_of(simd); }

namespace {

// The vector instructions of the architecture that this is compiled for.
constexpr Simd kVectorSimds[] = {
#if defined(__aarch64__)
    Simd::kNeon
#else
    Simd::kAvx2, Simd::kAvx512
#endif
};

std::vector<size_t> ends_of(const SplitPattern& pattern, std::string_view text,
                            size_t max_pieces = kSplitBatch) {
  std::vector<size_t> ends, batch(max_pieces);
  size_t begin = 0;
  while (const size_t num_pieces = pattern.split(text, begin, batch.data(), max_pieces)) {
    ends.insert(ends.end(), batch.begin(), batch.begin() + static_cast<ptrdiff_t>(num_pieces));
    begin = ends.back();
  }
  return ends;
}

class SplitSimd : public testing::TestWithParam<std::tuple<Simd, SplitKind>> {
 protected:
  void SetUp() override {
    const auto [simd, kind] = GetParam();
    if (!has_simd(simd)) GTEST_SKIP() << "this processor lacks the instructions";
    vector_ = make_split_pattern(kind, UnicodeVersion::k16, simd);
    scalar_ = make_split_pattern(kind, UnicodeVersion::k16, Simd::kScalar);
  }

  // In memory of exactly its size, so that a sanitizer sees a read behind the text.
  void expect_same(std::string_view text, size_t max_pieces = kSplitBatch) const {
    const std::vector<char> copy(text.begin(), text.end());
    const std::string_view exact(copy.data(), copy.size());
    ASSERT_EQ(ends_of(*vector_, exact, max_pieces), ends_of(*scalar_, exact))
        << testing::PrintToString(text.substr(0, 400));
  }

  std::shared_ptr<const SplitPattern> vector_, scalar_;
};

// Pieces depend on these: classes of all widths, white space of 1 to 3 bytes, contractions and
// their beginnings, and bytes that are not UTF-8.
const std::vector<std::vector<std::string>> kAlphabets = {
    {"!", "\n", " ", "  ", "\t", "\r", "/", "a", "1", "\u3000", "\n\n"},
    {"'", "\u017F", "S", "t", "LL", "'Re", "'ve", "x", "X", "!", " ", "\u00C5", "\u3042"},
    {"A", "b", "C", "d", "\u3042", "\u0301", "\u00C9", "\u00E9", "\u0416", " ", "!", "'s",
     "\u01C5"},
    {"1", "22", "333", "\u0663", "\u00BD", "a", " ", "\u2167", "."},
    {"(", ")", "|", ",", "\u3002", "\u0964", "\u2026", "a", "\u4E2D", " ", "  ", "-", "\u060C"},
    {"\u3040", "\u30FB", "\u30A2", "\u4E2D", "\u9FA6", "\x01", "\u0E01", "\u0E31", "\n", "!", " ",
     "a", "1", "$", "\uAC00", "\u200B"},
    {"a", "b", "S", " ", " ", "1", ".", "\n"},
    {"'", "s", "t", "r", "e", "l", "v", "m", "d", " ", "'ll", "'re", "S"},
    {" ", " ", "\n", "\t", "\u00A0", "\u3000", "\u2003", "\u0085", "a", "."},
    {"\u00E9", "\u4E2D", "\U0001F600", "\u00B2", "\u0301", "\u2019", "a", " ", "1", "\U00020000"},
    {"\xFF", "\xC3", "\xE4\xB8", "\xF0\x9F\x98", "\x80", "\xED\xA0\x80", "\u4E2D", "a", " ", "'"},
    {"\u2019", "\u201C", "\u2028", "\u2000", "\u200F", "\u2010", "\u2027", "\u2013", "a", " "},
    {"\u0E01", "\u0E31", "\u0430", "\u0416", "\u00D7", "\u0663", "\u4DC0", "\u9FFF", "\uAC00", " "},
    {"\xE0\x9F\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xED\xA0\x80", "\xC1\x80", "\xC2\x80",
     "\xDF\xBF", "\xEF\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5", "a"},
    {"\u00BD", "\u00B2", "\u0663", "\xBD", "\xB2", "\xC2", "1", "22", "333", "4444", "\u4E3D",
     "\uFF0C", "\u2E5D", " ", "a", "-", "\U0001F4BC"},
    {"!", "a", "B", "\u00E9", "\u0301", "\x01", "\uE000", "\U000F0000", "\u30FB", "\u3042",
     "\u3097", " ", "\n", "1", "+", "\u2014", "\u3000"},
    {std::string(1, '\0'), "\x1C", "\x7F", "\x80", "\v", "\r", " ", "'s", "\u1680", "9"},
    {"word", " the", " of", ", ", "'s", "\n\n", "    ", "--------", "aaaaaaaaaaaaaaaa"}};

std::string soup(const std::vector<std::string>& alphabet, size_t num_units, std::mt19937& random) {
  std::string text;
  for (size_t i = 0; i < num_units; ++i) text += alphabet[random() % alphabet.size()];
  return text;
}

TEST_P(SplitSimd, EqualsScalarOnRandomTexts) {
  std::mt19937 random(17);
  for (const std::vector<std::string>& alphabet : kAlphabets) {
    for (int round = 0; round < 1500; ++round) {
      expect_same(soup(alphabet, random() % 200, random));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(SplitSimd, EqualsScalarOnMixedAlphabets) {
  std::mt19937 random(18);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    while (text.size() < 2000) {
      text += soup(kAlphabets[random() % kAlphabets.size()], random() % 60, random);
    }
    expect_same(text);
    expect_same(text, 64 + random() % 300);  // batches of any size
    if (HasFatalFailure()) return;
  }
}

TEST_P(SplitSimd, EqualsScalarAtEveryOffsetFromABlocksEdge) {
  std::mt19937 random(19);
  for (const std::vector<std::string>& alphabet : kAlphabets) {
    for (int round = 0; round < 6; ++round) {
      const std::string middle = soup(alphabet, 12, random), rest = soup(alphabet, 60, random);
      for (const std::string filler : {"x", "x ", "\u00E9"}) {
        std::string before;
        for (size_t i = 0; i < 140; ++i, before += filler) {
          expect_same(before + middle);         // the text ends in the block
          expect_same(before + middle + rest);  // the text goes on
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Every text of four units that matter, across an edge.
TEST_P(SplitSimd, EqualsScalarOnEveryShortTextAtABlocksEdge) {
  const std::vector<std::string> units = {"'", "s",      "l",      " ",      "\n",  "1",
                                          "!", "\u00A0", "\u3000", "\u4E2D", "\xE4"};
  std::vector<std::string> texts = {""};
  for (int length = 0; length < 4; ++length) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string& unit : units) longer.push_back(text + unit);
    }
    texts = std::move(longer);
  }
  for (size_t num_before = 57; num_before <= 64; ++num_before) {
    for (const std::string& text : texts) {
      expect_same(std::string(num_before, 'x') + text);
      expect_same(std::string(num_before, 'x') + text +
                  " and more than one block of other words"
                  " behind, so that the text does not end here");
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(SplitSimd, EqualsScalarOnAnyBytes) {
  std::mt19937 random(20);
  for (int round = 0; round < 6000; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    expect_same(bytes);
    if (HasFatalFailure()) return;
  }
}

std::string utf8(uint32_t c) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
          byte(0x80 | (c & 63))};
}

// Surrogates too, which are not UTF-8. Beside a letter, a number and themselves each shows its
// class.
TEST_P(SplitSimd, EqualsScalarOnEveryCharacter) {
  std::string runs, between;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    runs += utf8(c);
    between += 'a' + utf8(c) + '1' + utf8(c) + utf8(c) + ' ';
    if (runs.size() < 4000) continue;
    expect_same(runs);
    expect_same(between);
    if (HasFatalFailure()) return;
    runs.clear();
    between.clear();
  }
}

// $WEFT_SPLIT_CODE_POINTS of them, by default few.
TEST_P(SplitSimd, EqualsScalarOnRandomCodePoints) {
  const char* const wanted = std::getenv("WEFT_SPLIT_CODE_POINTS");
  const int64_t num_wanted = wanted == nullptr ? 100'000 : std::stoll(wanted);
  std::mt19937 random(21);
  std::string text;
  for (int64_t num_done = 0; num_done < num_wanted; text.clear()) {
    for (const int64_t end = num_done + 4096; num_done < end; ++num_done) {
      // Nearly all classes are below U+3100.
      static constexpr uint32_t kLimits[] = {0x80, 0x80, 0x250, 0x700, 0x3100, 0x110000};
      const auto drawn = static_cast<uint32_t>(random());
      text += utf8(drawn / 6 % kLimits[drawn % 6]);
    }
    expect_same(text);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SplitSimd, EqualsScalarOnPiecesOfManyBlocks) {
  for (const std::string unit : {"a", " ", "\n", "'", "\u00A0", "\u4E2D", "\xFF", "-"}) {
    for (size_t num_units = 1; num_units < 300; ++num_units) {
      std::string run;
      for (size_t i = 0; i < num_units; ++i) run += unit;
      expect_same(run);
      expect_same("ab " + run + "x 's");
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(SplitSimd, EqualsScalarOnTheCorpus) {
  if (test::corpus_folder().empty()) GTEST_SKIP() << "WEFT_CORPUS_DIR is not set";
  for (const std::string name : {"english", "multilingual", "code", "nasty"}) {
    for (const std::string& text : test::corpus_texts(name)) {
      ASSERT_EQ(ends_of(*vector_, text), ends_of(*scalar_, text))
          << name << ": " << text.substr(0, 100);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SplitSimd,
                         testing::Combine(testing::ValuesIn(kVectorSimds),
                                          testing::ValuesIn(test::kSplitKinds)),
                         [](const auto& both) {
                           return name_of(std::get<0>(both.param)) +
                                  test::name_of(std::get<1>(both.param));
                         });

TEST(Simd, IsChosenByNameOrByTheProcessor) {
  EXPECT_TRUE(has_simd(chosen_simd()));
  EXPECT_EQ(simd_of_name("scalar"), Simd::kScalar);
  EXPECT_THROW(simd_of_name("AVX2"), std::invalid_argument);
  for (const auto& [name, simd] : {std::pair{"avx2", Simd::kAvx2}, {"neon", Simd::kNeon}}) {
    if (has_simd(simd)) {
      EXPECT_EQ(simd_of_name(name), simd);
    } else {
      EXPECT_THROW(simd_of_name(name), std::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace weft
