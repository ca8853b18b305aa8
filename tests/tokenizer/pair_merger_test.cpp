// Merging by a PairTable against merging by rank.
#include "tokenizer/merge/pair_merger.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden.h"
#include "tokenizer/merge/backtrack_table.h"
#include "tokenizer/merge/merge_table.h"
#include "tokenizer/merge/pair_table.h"
#include "tokenizer/merge/word_merger.h"

namespace weft {
namespace {

const std::vector<std::vector<std::string>> kMergedAlphabets = {
    {"a"},
    {"a", "b"},
    {"-"},
    {"-", "="},
    {"e", "t", "a", "o", "i", "n", "s", "h", "r"},
    {"the", " ", "in", "g", "er", "an", "th", "e", "re", "s"},
    {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "Q", "Z"},
    {"\u4E2D", "\u6587", "\u7684", "\u4E00", "\u3042", "\u30F3"},
    {"\u00C3", "\u00C2", "\u00E9", "\u0301", "\u0E01", "\u0E33"},
    {"\xFF", "\x80", "\xE4\xB8", std::string(1, '\0'), " ", "\n"},
};

std::string word_of(const std::vector<std::string>& units, size_t num_bytes, std::mt19937& random) {
  std::string word;
  while (word.size() < num_bytes) word += units[random() % units.size()];
  word.resize(num_bytes);
  return word;
}

template <typename Token>
class BothMergers {
 public:
  explicit BothMergers(const Vocabulary& vocabulary)
      : by_rank_(vocabulary.merge_table()), by_pair_(*vocabulary.pair_table<Token>()) {}

  void expect_same_short(std::string_view word) {
    std::vector<int32_t> expected, ids;
    by_rank_.merge(word, expected);
    Token tokens[PairMerger<Token>::kMaxShortBytes];
    const size_t num_tokens = by_pair_.merge_short(word, tokens);
    for (size_t i = 0; i < num_tokens; ++i) ids.push_back(by_pair_.id(tokens[i]));
    ASSERT_EQ(ids, expected) << testing::PrintToString(word);
  }

  // True if windows sufficed.
  bool expect_same_by_windows(std::string_view word) {
    std::vector<int32_t> expected, ids = {7};
    const bool done = by_pair_.merge_by_windows(word, ids);
    expected = {7};
    if (done) by_rank_.merge(word, expected);
    EXPECT_EQ(ids, expected) << testing::PrintToString(word.substr(0, 300));
    return done;
  }

 private:
  WordMerger by_rank_;
  PairMerger<Token> by_pair_;
};

template <typename Token>
void expect_same_on_short_words() {
  for (const auto& vocabulary : test::vocabularies()) {
    BothMergers<Token> mergers(*vocabulary);
    std::mt19937 random(41);
    for (const auto& alphabet : kMergedAlphabets) {
      for (int round = 0; round < 100; ++round) {
        for (size_t num_bytes = 1; num_bytes <= PairMerger<Token>::kMaxShortBytes; ++num_bytes) {
          mergers.expect_same_short(word_of(alphabet, num_bytes, random));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
    for (int32_t id = 0; id < vocabulary->size(); ++id) {
      const std::string& entry = vocabulary->bytes(id);
      if (entry.size() <= PairMerger<Token>::kMaxShortBytes) mergers.expect_same_short(entry);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(PairMerger, EqualsMergingByRankOnShortWords) {
  expect_same_on_short_words<uint16_t>();
  expect_same_on_short_words<uint32_t>();
}

TEST(PairMerger, EqualsMergingByRankByWindows) {
  for (const auto& vocabulary : test::vocabularies()) {
    BothMergers<uint16_t> mergers(*vocabulary);
    std::mt19937 random(42);
    int num_done = 0, num_words = 0;
    for (const auto& alphabet : kMergedAlphabets) {
      for (size_t num_bytes = 1; num_bytes < 200; ++num_bytes) {
        for (int round = 0; round < 5; ++round, ++num_words) {
          num_done += mergers.expect_same_by_windows(word_of(alphabet, num_bytes, random));
        }
      }
      for (int round = 0; round < 5; ++round, ++num_words) {
        num_done += mergers.expect_same_by_windows(word_of(alphabet, 5000, random));
      }
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(num_done, num_words / 2);
  }
}

TEST(PairTable, HoldsTheMergesAndNoOther) {
  for (const auto& vocabulary : test::vocabularies()) {
    const PairTable<uint16_t>& table = *vocabulary->pair_table<uint16_t>();
    std::vector<uint16_t> token_of_id(static_cast<size_t>(vocabulary->size()), table.kNone);
    for (uint32_t token = 0; token < 256 + vocabulary->merges().size(); ++token) {
      token_of_id[table.id(static_cast<uint16_t>(token))] = static_cast<uint16_t>(token);
    }
    const auto find_id = [&](int32_t left, int32_t right) {
      const uint16_t product = table.find(token_of_id[left], token_of_id[right]);
      return product == table.kNone ? -1 : table.id(product);
    };
    std::mt19937 random(43);
    const auto id_bound = static_cast<uint32_t>(vocabulary->size());
    const auto expect_as_merge_table = [&](int32_t left, int32_t right) {
      if (left == vocabulary->end_of_document() || right == vocabulary->end_of_document()) return;
      const MergeTable::Rule rule = vocabulary->merge_table().find(left, right);
      ASSERT_EQ(find_id(left, right), rule.rank == MergeTable::kNoRank ? -1 : rule.result);
    };
    for (const Vocabulary::Merge& merge : vocabulary->merges()) {
      ASSERT_EQ(find_id(merge.left, merge.right), merge.result);
      expect_as_merge_table(merge.left, static_cast<int32_t>(random() % id_bound));
      expect_as_merge_table(static_cast<int32_t>(random() % id_bound), merge.right);
    }
    for (int i = 0; i < 1'000'000; ++i) {
      expect_as_merge_table(static_cast<int32_t>(random() % id_bound),
                            static_cast<int32_t>(random() % id_bound));
    }
    for (uint32_t token = 0; token < 256 + vocabulary->merges().size(); ++token) {
      const auto same = static_cast<uint16_t>(token);
      ASSERT_EQ(table.find(same, table.lone_token()), table.kNone);
      ASSERT_EQ(table.find(table.lone_token(), same), table.kNone);
    }
  }
}

TEST(PairTable, KnowsStablePairsAsBacktrackTableDoes) {
  for (const auto& vocabulary : test::vocabularies()) {
    const PairTable<uint16_t>& table = *vocabulary->pair_table<uint16_t>();
    const BacktrackTable& expected = *vocabulary->backtrack_table();
    const auto num_tokens = static_cast<uint32_t>(256 + vocabulary->merges().size());
    std::mt19937 random(44);
    int num_stable = 0;
    constexpr int kRounds = 300'000;
    for (int i = 0; i < kRounds; ++i) {
      const uint32_t left = random() % num_tokens, right = random() % num_tokens;
      const bool stable =
          table.is_stable(static_cast<uint16_t>(left), static_cast<uint16_t>(right));
      ASSERT_EQ(stable, expected.is_stable(left, right)) << left << " " << right;
      num_stable += stable;
    }
    EXPECT_GT(num_stable, 0);
    EXPECT_LT(num_stable, kRounds);
  }
}

}  // namespace
}  // namespace weft
