#include "tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft {
namespace {

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
    EXPECT_EQ(cache.find(ShortWordCache::key_of(word)), nullptr);
    cache.insert(ShortWordCache::key_of(word), ids.data(), num_ids);
    ASSERT_NE(cache.find(ShortWordCache::key_of(word)), nullptr);
    EXPECT_EQ(ids_of(*cache.find(ShortWordCache::key_of(word))),
              std::vector<int32_t>(ids.begin(), ids.begin() + num_ids));
  }
}

TEST(ShortWordCache, TellsWordsOfDifferentLengthApart) {
  const std::string zeros(15, '\0');
  for (size_t a = 1; a <= 15; ++a) {
    for (size_t b = 1; b <= 15; ++b) {
      EXPECT_EQ(
          ShortWordCache::key_of(zeros.substr(0, a)) == ShortWordCache::key_of(zeros.substr(0, b)),
          a == b);
    }
  }
}

TEST(ShortWordCache, KeyDoesNotDependOnWhatFollowsTheWord) {
  const std::string text = "0123456789abcdefghijklmnopqrstuv";
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t num_bytes = 1; num_bytes <= 15; ++num_bytes) {
      EXPECT_EQ(ShortWordCache::key_of_readable(text.data() + begin, num_bytes),
                ShortWordCache::key_of(text.substr(begin, num_bytes)));
    }
  }
}

TEST(ShortWordCache, ForgetsButNeverConfuses) {
  constexpr int32_t kNumWords = 1'000'000;
  ShortWordCache cache;
  for (int32_t i = 0; i < kNumWords; ++i)
    cache.insert(ShortWordCache::key_of(std::to_string(i)), &i, 1);
  int32_t num_found = 0;
  for (int32_t i = 0; i < kNumWords; ++i) {
    const ShortWordCache::Entry* entry = cache.find(ShortWordCache::key_of(std::to_string(i)));
    if (entry == nullptr) continue;
    ++num_found;
    ASSERT_EQ(ids_of(*entry), std::vector<int32_t>{i});
  }
  EXPECT_GT(num_found, 0);
  EXPECT_LT(num_found, kNumWords / 2);  // 16 MiB hold 393,216 words at most
  EXPECT_NE(cache.find(ShortWordCache::key_of(std::to_string(kNumWords - 1))), nullptr);
}

TEST(LongWordCache, KeepsUpToTenIdsOfThirtyOneBytes) {
  LongWordCache cache;
  const std::string word = "a word of just thirty-one bytes";
  const std::vector<int32_t> ids = {9, 8, 7, 6, 5, 4, 3, 2, 1, (1 << 24) - 1};
  ASSERT_EQ(word.size(), LongWordCache::kMaxWordBytes);
  cache.insert(LongWordCache::key_of(word), ids.data(), ids.size());
  const LongWordCache::Entry* entry = cache.find(LongWordCache::key_of(word));
  ASSERT_NE(entry, nullptr);
  std::vector<int32_t> found(LongWordCache::kMaxIds);
  entry->copy_ids(found.data());
  EXPECT_EQ(entry->num_ids(), ids.size());
  EXPECT_EQ(found, ids);
  EXPECT_EQ(cache.find(LongWordCache::key_of("A word of just thirty-one bytes")), nullptr);
  EXPECT_EQ(cache.find(LongWordCache::key_of("a word of just thirty-one byteS")), nullptr);
}

}  // namespace
}  // namespace weft
