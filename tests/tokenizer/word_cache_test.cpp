#include "tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {
namespace {

using ShortWords = ShortWordCache<uint16_t>;
using LongWords = LongWordCache<uint16_t>;

template <typename Cache>
std::vector<int32_t> ids_found(const Cache& cache, const std::string& word) {
  const auto* entry = cache.find(Cache::key_of(word));
  if (entry == nullptr) return {};
  std::remove_cvref_t<decltype(entry->num_ids)> copied[Cache::kNumCopied];
  entry->copy_ids(copied);
  return {copied, copied + entry->num_ids};
}

template <typename Cache>
void insert(Cache& cache, const std::string& word, const std::vector<int32_t>& ids) {
  cache.insert(Cache::key_of(word), ids.data(), ids.size());
}

template <typename Cache>
void expect_keeps_any_number_of_ids(int32_t max_id) {
  Cache cache;
  std::vector<int32_t> ids;
  for (size_t num_ids = 1; num_ids <= Cache::kMaxIds; ++num_ids) {
    const std::string word(num_ids, 'w');
    ids.push_back(max_id - static_cast<int32_t>(num_ids % 3));
    EXPECT_EQ(ids_found(cache, word), std::vector<int32_t>());
    insert(cache, word, ids);
    EXPECT_EQ(ids_found(cache, word), ids);
  }
}

TEST(WordCache, KeepsAsManyIdsAsItSays) {
  EXPECT_EQ(ShortWords::kMaxIds, 7u);
  EXPECT_EQ(LongWords::kMaxIds, 15u);
  expect_keeps_any_number_of_ids<ShortWords>(65535);
  expect_keeps_any_number_of_ids<LongWords>(65535);
  expect_keeps_any_number_of_ids<ShortWordCache<uint32_t>>((1 << 24) - 1);
  expect_keeps_any_number_of_ids<LongWordCache<uint32_t>>((1 << 24) - 1);
}

TEST(ShortWordCache, TellsWordsOfDifferentLengthApart) {
  const std::string zeros(15, '\0');
  for (size_t a = 1; a <= 15; ++a) {
    for (size_t b = 1; b <= 15; ++b) {
      EXPECT_EQ(ShortWords::key_of(zeros.substr(0, a)) == ShortWords::key_of(zeros.substr(0, b)),
                a == b);
    }
  }
}

TEST(ShortWordCache, KeyDoesNotDependOnWhatFollowsTheWord) {
  const std::string text = "0123456789abcdefghijklmnopqrstuv";
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t num_bytes = 1; num_bytes <= 15; ++num_bytes) {
      EXPECT_EQ(ShortWords::key_of_readable(text.data() + begin, num_bytes),
                ShortWords::key_of(text.substr(begin, num_bytes)));
    }
  }
}

// Grows, fills up, is cleared: what is found is right, and nothing is lost without clear().
TEST(ShortWordCache, FindsEverythingSinceItWasCleared) {
  constexpr int32_t kNumWords = 1'000'000;
  ShortWords cache;
  int32_t first_kept = 0, num_cleared = 0;
  for (int32_t i = 0; i < kNumWords; ++i) {
    if (!cache.has_room()) {
      for (int32_t k = first_kept; k < i; ++k) {
        ASSERT_EQ(ids_found(cache, std::to_string(k)), std::vector<int32_t>{k & 0xFFFF});
      }
      cache.clear();
      EXPECT_EQ(ids_found(cache, std::to_string(i - 1)), std::vector<int32_t>());
      EXPECT_EQ(i - first_kept, ShortWords::kMaxEntries);
      first_kept = i;
      ++num_cleared;
    }
    insert(cache, std::to_string(i), {i & 0xFFFF});
  }
  EXPECT_EQ(num_cleared, kNumWords / ShortWords::kMaxEntries);
}

TEST(LongWordCache, ComparesAllThirtyOneBytes) {
  LongWords cache;
  const std::string word = "a word of just thirty-one bytes";
  ASSERT_EQ(word.size(), LongWords::kMaxWordBytes);
  insert(cache, word, {1, 2});
  EXPECT_EQ(ids_found(cache, word), (std::vector<int32_t>{1, 2}));
  for (size_t i = 0; i < word.size(); ++i) {
    std::string changed = word;
    changed[i] ^= 1;
    EXPECT_EQ(ids_found(cache, changed), std::vector<int32_t>()) << i;
  }
}

TEST(ZeroedPages, AreZeroAndAligned) {
  for (const size_t num_bytes : {size_t{1}, size_t{2} << 20, (size_t{4} << 20) + 1}) {
    ZeroedPages pages(num_bytes);
    auto* const bytes = static_cast<char*>(pages.data());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % (2 << 20), 0u);
    EXPECT_EQ(std::count(bytes, bytes + num_bytes, 0), static_cast<ptrdiff_t>(num_bytes));
    bytes[num_bytes - 1] = 1;
    const ZeroedPages moved = std::move(pages);
    EXPECT_EQ(static_cast<char*>(moved.data())[num_bytes - 1], 1);
  }
}

}  // namespace
}  // namespace weft
