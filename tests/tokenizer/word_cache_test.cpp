#include "tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft {
namespace {

ShortWordCache::Key key_of(const std::string& word) {
  return ShortWordCache::key_of(word.data(), word.size(), false);
}

std::vector<int32_t> ids_of(const ShortWordCache::Entry& entry) {
  std::vector<int32_t> ids(ShortWordCache::kMaxIds);
  entry.copy_ids(ids.data());
  ids.resize(entry.num_ids());
  return ids;
}

TEST(ShortWordCache, KeepsUpToFiveIdsOf24Bits) {
  ShortWordCache cache;
  const std::vector<int32_t> ids = {0, 1, 50256, 65536, (1 << 24) - 1};
  for (size_t num_ids = 1; num_ids <= ids.size(); ++num_ids) {
    const std::string word(num_ids, 'w');
    EXPECT_EQ(cache.find(key_of(word)), nullptr);
    cache.insert(key_of(word), ids.data(), num_ids);
    ASSERT_NE(cache.find(key_of(word)), nullptr);
    EXPECT_EQ(ids_of(*cache.find(key_of(word))),
              std::vector<int32_t>(ids.begin(), ids.begin() + num_ids));
  }
}

TEST(ShortWordCache, TellsWordsOfDifferentLengthApart) {
  const std::string zeros(15, '\0');
  for (size_t a = 1; a <= 15; ++a) {
    for (size_t b = 1; b <= 15; ++b) {
      EXPECT_EQ(key_of(zeros.substr(0, a)) == key_of(zeros.substr(0, b)), a == b);
    }
  }
}

TEST(ShortWordCache, KeyDoesNotDependOnWhatFollowsTheWord) {
  const std::string text = "0123456789abcdefghijklmnopqrstuv";
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t num_bytes = 1; num_bytes <= 15; ++num_bytes) {
      EXPECT_EQ(ShortWordCache::key_of(text.data() + begin, num_bytes, true),
                key_of(text.substr(begin, num_bytes)));
    }
  }
}

TEST(ShortWordCache, ForgetsButNeverConfuses) {
  constexpr int32_t kNumWords = 1'000'000;
  ShortWordCache cache;
  for (int32_t i = 0; i < kNumWords; ++i) cache.insert(key_of(std::to_string(i)), &i, 1);
  int32_t num_found = 0;
  for (int32_t i = 0; i < kNumWords; ++i) {
    const ShortWordCache::Entry* entry = cache.find(key_of(std::to_string(i)));
    if (entry == nullptr) continue;
    ++num_found;
    ASSERT_EQ(ids_of(*entry), std::vector<int32_t>{i});
  }
  EXPECT_GT(num_found, 0);
  EXPECT_LT(num_found, kNumWords / 2);  // 16 MiB hold 393,216 words at most
  EXPECT_NE(cache.find(key_of(std::to_string(kNumWords - 1))), nullptr);
}

TEST(LongWordCache, ForgetsButNeverConfuses) {
  constexpr int32_t kNumWords = 200'000;
  LongWordCache cache;
  const auto word_of = [](int32_t i) {
    return "a word of more than fifteen bytes " + std::to_string(i);
  };
  for (int32_t i = 0; i < kNumWords; ++i) {
    const int32_t ids[2] = {i, -i};
    cache.insert(word_of(i), ids, 2);
  }
  int32_t num_found = 0;
  for (int32_t i = 0; i < kNumWords; ++i) {
    const std::vector<int32_t>* ids = cache.find(word_of(i));
    if (ids == nullptr) continue;
    ++num_found;
    ASSERT_EQ(*ids, (std::vector<int32_t>{i, -i}));
  }
  EXPECT_GT(num_found, 0);
  EXPECT_LT(num_found, kNumWords / 2);
}

}  // namespace
}  // namespace weft
