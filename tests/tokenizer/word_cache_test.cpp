#include "tokenizer/known_words/word_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft {
namespace {

template <typename Cache>
std::vector<int32_t> ids_found(const Cache& cache, const std::string& word) {
  const auto* entry = cache.find(WordKey::of(word), word);
  if (entry == nullptr) return {};
  const auto ids = cache.ids_of(*entry);
  return {ids.begin(), ids.end()};
}

template <typename Cache>
bool insert(Cache& cache, const std::string& word, const std::vector<int32_t>& ids) {
  return cache.insert(WordKey::of(word), word, std::span<const int32_t>(ids));
}

std::string random_word(size_t num_bytes, std::mt19937& random) {
  std::string word(num_bytes, '\0');
  for (char& c : word) c = static_cast<char>(random());
  return word;
}

template <typename Id>
void expect_keeps_words_of_all_sizes(int32_t max_id) {
  WordCache<Id> cache;
  std::mt19937 random(1);
  std::vector<std::pair<std::string, std::vector<int32_t>>> inserted;
  for (const size_t num_bytes : {1, 2, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33, 100, 1023, 1024}) {
    for (size_t num_ids = 1; num_ids <= num_bytes; num_ids += 1 + num_ids / 8) {
      std::string word = random_word(num_bytes, random);
      std::vector<int32_t> ids(num_ids);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % (max_id + 1));
      if (!ids_found(cache, word).empty()) continue;  // a byte that was there
      EXPECT_TRUE(cache.has_room(num_bytes));
      insert(cache, word, ids);
      inserted.emplace_back(std::move(word), std::move(ids));
    }
  }
  EXPECT_GT(inserted.size(), 100u);
  for (const auto& [word, ids] : inserted) {
    ASSERT_EQ(ids_found(cache, word), ids) << word.size() << " bytes";
    std::string changed = word;
    changed[random() % word.size()] ^= 1;
    if (word.size() <= 2) continue;  // the changed one may be another that is there
    EXPECT_EQ(ids_found(cache, changed), std::vector<int32_t>());
  }
  cache.clear();
  for (const auto& [word, ids] : inserted) ASSERT_TRUE(ids_found(cache, word).empty());
}

TEST(WordCache, KeepsWordsOfAllSizes) {
  expect_keeps_words_of_all_sizes<uint16_t>(65535);
  expect_keeps_words_of_all_sizes<uint32_t>((1 << 24) - 1);
}

// Keys of long words are hashes: two words may have the same.
TEST(WordCache, ComparesTheBytesOfLongWords) {
  WordCache<uint16_t> cache;
  const std::string word(40, 'w'), other(40, 'v'), shorter(39, 'w');
  const std::vector<int32_t> ids = {1, 2, 3};
  insert(cache, word, ids);
  EXPECT_NE(cache.find(WordKey::of(word), word), nullptr);
  EXPECT_EQ(cache.find(WordKey::of(word), other), nullptr);
  EXPECT_EQ(cache.find(WordKey::of(word), shorter), nullptr);
}

TEST(WordKey, TellsWordsOfDifferentLengthApart) {
  const std::string zeros(64, '\0');
  for (size_t a = 1; a <= zeros.size(); ++a) {
    for (size_t b = 1; b <= zeros.size(); ++b) {
      EXPECT_EQ(WordKey::of(zeros.substr(0, a)) == WordKey::of(zeros.substr(0, b)), a == b);
    }
    EXPECT_EQ(WordKey::of(zeros.substr(0, a)).is_long(), a > WordKey::kMaxBytes);
    EXPECT_FALSE(WordKey::of(zeros.substr(0, a)).is_empty());
  }
}

TEST(WordKey, DoesNotDependOnWhatFollowsTheWord) {
  const std::string text = "0123456789abcdefghijklmnopqrstuv";
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t num_bytes = 1; num_bytes <= 15; ++num_bytes) {
      EXPECT_EQ(WordKey::of_readable(text.data() + begin, num_bytes),
                WordKey::of(text.substr(begin, num_bytes)));
    }
  }
}

TEST(WordKey, DependsOnEveryByteOfALongWord) {
  for (size_t num_bytes = 16; num_bytes <= 70; ++num_bytes) {
    const std::string word(num_bytes, 'x');
    for (size_t i = 0; i < num_bytes; ++i) {
      std::string changed = word;
      changed[i] ^= 1;
      EXPECT_FALSE(WordKey::of(word) == WordKey::of(changed)) << num_bytes << " " << i;
    }
  }
}

// Whatever is looked up in whatever order, everything stays where it is found; what has just been
// found lies in its line.
TEST(WordCache, AdvancesWordsThatAreFoundBehindTheirLine) {
  using Cache = WordCache<uint16_t>;
  Cache cache;
  std::mt19937 random(3);
  std::vector<std::string> words;
  const auto ids_of = [](size_t i) {
    return std::vector<int32_t>(1 + i % 12, static_cast<int32_t>(i & 0xFFFF));
  };
  while (words.size() < 150'000) {  // as full as it gets before it grows, nearly
    words.push_back(std::to_string(words.size()) + std::string(random() % 16, 'x'));
    ASSERT_FALSE(insert(cache, words.back(), ids_of(words.size() - 1)));
  }
  const auto line_of = [&](const WordKey& key) {
    const WordTable table = cache.table();
    return (key.hash() >> table.shift) * kWordLineBytes;
  };
  int num_moved = 0;
  for (int round = 0; round < 400'000; ++round) {
    const size_t i = random() % (random() % 2 == 0 ? words.size() : 20'000);
    const WordKey key = WordKey::of(words[i]);
    const auto* const before = cache.find(key, words[i]);
    const auto* const entry = cache.find_and_advance(line_of(key), key, words[i]);
    ASSERT_NE(entry, nullptr);
    num_moved += before != entry;
    const auto at = reinterpret_cast<const char*>(entry) - cache.table().lines;
    ASSERT_EQ(static_cast<size_t>(at) / kWordLineBytes * kWordLineBytes, line_of(key));
    const auto ids = cache.ids_of(*entry);
    ASSERT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), ids_of(i));
  }
  EXPECT_GT(num_moved, 1000);
  for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ(ids_found(cache, words[i]), ids_of(i));
  EXPECT_EQ(cache.find_and_advance(line_of(WordKey::of("absent")), WordKey::of("absent"), "absent"),
            nullptr);
}

// Grows, fills up, is cleared: what is found is right, and nothing is lost without clear().
TEST(WordCache, FindsEverythingSinceItWasCleared) {
  using Cache = WordCache<uint16_t>;
  constexpr int32_t kNumWords = 1'700'000;
  Cache cache;
  int32_t first_kept = 0, num_cleared = 0, num_grown = 0;
  for (int32_t i = 0; i < kNumWords; ++i) {
    const std::string word = std::to_string(i);
    if (!cache.has_room(word.size())) {
      for (int32_t k = first_kept; k < i; ++k) {
        ASSERT_EQ(ids_found(cache, std::to_string(k)), std::vector<int32_t>{k & 0xFFFF});
      }
      cache.clear();
      EXPECT_EQ(ids_found(cache, std::to_string(i - 1)), std::vector<int32_t>());
      EXPECT_EQ(i - first_kept, Cache::kMaxEntries);
      first_kept = i;
      ++num_cleared;
    }
    num_grown += insert(cache, word, {i & 0xFFFF});
  }
  EXPECT_EQ(num_cleared, kNumWords / Cache::kMaxEntries);
  EXPECT_GT(num_grown, 0);
}

TEST(WordCache, HasRoomForABoundedAmountOfLongWords) {
  using Cache = WordCache<uint16_t>;
  Cache cache;
  std::mt19937 random(2);
  const std::vector<int32_t> ids(1000, 7);
  size_t num_bytes = 0;
  while (cache.has_room(1000)) {
    ASSERT_LT(num_bytes, Cache::kMaxArenaBytes);
    insert(cache, random_word(1000, random), ids);
    num_bytes += 1000 + 2 * ids.size();
  }
  EXPECT_GT(num_bytes, Cache::kMaxArenaBytes / 10 * 9);
  cache.clear();
  EXPECT_TRUE(cache.has_room(1000));
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
