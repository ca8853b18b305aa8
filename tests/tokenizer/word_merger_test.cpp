#include "tokenizer/merge/word_merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tokenizer/golden.h"

namespace weft {
namespace {

// The definition, word for word: as long as some neighbours have a rule, the first pair of lowest
// rank is replaced.
std::vector<int32_t> merge_by_definition(const Vocabulary& vocabulary, const std::string& word) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t rank = 0; rank < vocabulary.merges().size(); ++rank) {
    ranks[{vocabulary.merges()[rank].left, vocabulary.merges()[rank].right}] = rank;
  }
  std::vector<int32_t> ids;
  for (char c : word) ids.push_back(vocabulary.merge_table().byte_id(static_cast<uint8_t>(c)));
  for (;;) {
    size_t best_rank = SIZE_MAX, best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = ranks.find({ids[i], ids[i + 1]});
      if (it != ranks.end() && it->second < best_rank) {
        best_rank = it->second;
        best = i;
      }
    }
    if (best_rank == SIZE_MAX) return ids;
    ids[best] = vocabulary.merges()[best_rank].result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

std::string random_word(std::mt19937& random, const std::string& alphabet, size_t num_bytes) {
  std::string word;
  while (word.size() < num_bytes) word += alphabet[random() % alphabet.size()];
  return word;
}

// Lengths on both sides of the change from scanning to the queue.
TEST(WordMerger, MergesAsDefinedAtAnyLength) {
  const auto vocabulary = test::small_vocabulary();
  WordMerger merger(vocabulary->merge_table());
  std::mt19937 random(3);
  for (const char* alphabet :
       {"e", "the ", "aeinorst", "abcdefghijklmnopqrstuvwxyz ", "\xE0\xA4\xA5\xBE\x95\x8D"}) {
    for (size_t num_bytes = 1; num_bytes <= 150; ++num_bytes) {
      const std::string word = random_word(random, alphabet, num_bytes);
      std::vector<int32_t> ids;
      merger.merge(word, ids);
      ASSERT_EQ(ids, merge_by_definition(*vocabulary, word)) << "'" << word << "'";
    }
  }
}

TEST(WordMerger, AppendsToWhatIsThere) {
  const auto vocabulary = test::small_vocabulary();
  WordMerger merger(vocabulary->merge_table());
  std::vector<int32_t> ids = {7};
  merger.merge("!", ids);
  merger.merge("\"", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 0, 1}));
}

TEST(MergeTable, AllowsExactlyTheBytePairsInsideEntries) {
  const auto vocabulary = test::small_vocabulary();
  std::vector<bool> inside(65536);
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string& entry = vocabulary->bytes(id);
    for (size_t i = 0; i + 1 < entry.size() && id != vocabulary->end_of_document(); ++i) {
      inside[static_cast<uint8_t>(entry[i]) << 8 | static_cast<uint8_t>(entry[i + 1])] = true;
    }
  }
  int num_possible = 0;
  for (int pair = 0; pair < 65536; ++pair) {
    const bool possible = vocabulary->merge_table().may_touch(static_cast<uint8_t>(pair >> 8),
                                                              static_cast<uint8_t>(pair & 255));
    ASSERT_EQ(possible, inside[pair]) << pair;
    num_possible += possible;
  }
  EXPECT_GT(num_possible, 0);
  EXPECT_LT(num_possible, 65536 / 10);
}

}  // namespace
}  // namespace weft
