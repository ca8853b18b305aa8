// Encoding by longest match against merging by rank.
#include "tokenizer/merge/backtracking_merger.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/merge/word_merger.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

class MatchAndMerge {
 public:
  explicit MatchAndMerge(const Vocabulary& vocabulary)
      : by_rank_(vocabulary.merge_table()), by_match_(*vocabulary.backtrack_table()) {}

  void expect_same(std::string_view word) {
    std::vector<int32_t> expected, ids = {7};
    by_rank_.merge(word, expected);
    by_match_.merge(word, ids);
    ASSERT_EQ(ids.front(), 7);  // appended to
    ASSERT_EQ(std::vector<int32_t>(ids.begin() + 1, ids.end()), expected)
        << testing::PrintToString(word.substr(0, 300));
  }

 private:
  WordMerger by_rank_;
  BacktrackingMerger by_match_;
};

// Words over an alphabet of whole units, so that real entries come up.
std::string word_of_units(const std::vector<std::string>& units, size_t num_units,
                          std::mt19937& random) {
  std::string word;
  for (size_t i = 0; i < num_units; ++i) word += units[random() % units.size()];
  return word;
}

TEST(BacktrackingMerger, EqualsMergingOnRandomWords) {
  const std::vector<std::vector<std::string>> alphabets = {
      {"a"},
      {"a", "b"},
      {"e", "t", "a", "o", "i", "n", "s", "h", "r"},
      {" ", "t", "h", "e"},
      {"ing", "er", "the", "s", "t", "ion", "re", "A", "E"},
      {"0", "1", "2", "00", "000"},
      {"-", "=", "--------", "*", "_"},
      {"\xC3", "\xA9", "\xE4", "\xB8", "\xAD", "\xC3\x83", "\xC3\x82"},
      {"\u3042", "\u3044", "\u306E", "\u4E2D", "\u6587", "\u30FC"}};
  std::mt19937 random(23);
  for (const auto& vocabulary : test::vocabularies()) {
    MatchAndMerge mergers(*vocabulary);
    for (const std::vector<std::string>& alphabet : alphabets) {
      for (int round = 0; round < 3000; ++round) {
        mergers.expect_same(word_of_units(alphabet, 1 + random() % 100, random));
        if (HasFatalFailure()) return;
      }
      mergers.expect_same(word_of_units(alphabet, 50'000, random));
      if (HasFatalFailure()) return;
    }
  }
}

// Entries joined, and cut off at both ends, meet the cases where the longest match is wrong.
TEST(BacktrackingMerger, EqualsMergingOnJoinedEntries) {
  std::mt19937 random(24);
  for (const auto& vocabulary : test::vocabularies()) {
    MatchAndMerge mergers(*vocabulary);
    for (int round = 0; round < 100'000; ++round) {
      std::string word;
      for (size_t i = 1 + random() % 6; i > 0; --i) {
        word += vocabulary->bytes(static_cast<int32_t>(random() % vocabulary->size()));
      }
      word = word.substr(random() % std::min<size_t>(word.size(), 4));
      word.resize(1 + random() % word.size());
      mergers.expect_same(word);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(BacktrackingMerger, EqualsMergingOnAnyBytes) {
  std::mt19937 random(25);
  for (const auto& vocabulary : test::vocabularies()) {
    MatchAndMerge mergers(*vocabulary);
    for (int round = 0; round < 10'000; ++round) {
      std::string bytes(1 + random() % 200, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      mergers.expect_same(bytes);
      if (HasFatalFailure()) return;
    }
  }
}

// All words of up to 10 letters over alphabets of two and three, with vocabularies learned from
// random words over the same: every case that so few letters can make.
TEST(BacktrackingMerger, EqualsMergingOnEveryShortWordOfLearnedVocabularies) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::string letters = seed % 2 == 0 ? "ab" : "abc";
    const size_t max_length = seed % 2 == 0 ? 14 : 9;
    std::mt19937 random(seed);
    VocabularyTrainer trainer;
    for (int i = 0; i < 300; ++i) {
      std::string word;
      for (size_t k = 1 + random() % 12; k > 0; --k) word += letters[random() % letters.size()];
      trainer.add_text(word);
    }
    const LearnedVocabulary learned = trainer.train(256 + 20 + 5 * static_cast<int>(seed), 1);
    const auto vocabulary =
        load_gpt2({"vocab.json", vocab_json_of(learned)}, {"merges.txt", merges_txt_of(learned)});
    ASSERT_NE(vocabulary->backtrack_table(), nullptr);
    MatchAndMerge mergers(*vocabulary);
    std::vector<std::string> words = {""};
    for (size_t length = 1; length <= max_length; ++length) {
      std::vector<std::string> longer;
      for (const std::string& word : words) {
        for (char letter : letters) longer.push_back(word + letter);
      }
      words = std::move(longer);
      for (const std::string& word : words) {
        mergers.expect_same(word);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace weft
