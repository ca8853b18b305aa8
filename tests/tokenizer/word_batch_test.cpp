// The vector steps of a batch against the plain ones.
#include "tokenizer/known_words/word_batch.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace weft {
namespace {

// Cuts `text` into words of random lengths, most of them short.
void cut(const std::string& text, std::mt19937& random, WordBatch& batch) {
  batch.begin = random() % 3;
  batch.num_words = 0;
  for (size_t end = batch.begin; end < text.size() && batch.num_words < kBatchWords;) {
    end += 1 + random() % (random() % 8 == 0 ? 1100 : random() % 4 == 0 ? 40 : 15);
    end = std::min(end, text.size());
    batch.ends[batch.num_words++] = end;
  }
}

template <typename Id>
void expect_same_steps(Simd simd, uint32_t seed) {
  if (!has_simd(simd)) GTEST_SKIP() << "this processor lacks the instructions";
  const WordBatchSteps<Id> plain = word_batch_steps<Id>(Simd::kScalar);
  const WordBatchSteps<Id> steps = word_batch_steps<Id>(simd);
  const auto cache = std::make_unique<WordCache<Id>>();
  auto expected = std::make_unique<WordBatch>(), batch = std::make_unique<WordBatch>();
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    // Few different bytes, so that words come back; memory of exactly the text's size.
    std::string text(3 + random() % 3000, '\0');
    for (char& c : text) c = "ab \0\xFF"[random() % 5];
    const std::vector<char> exact(text.begin(), text.end());
    const std::string_view view(exact.data(), exact.size());
    cut(text, random, *expected);
    *batch = *expected;
    plain.make_keys(view, cache->table(), *expected);
    steps.make_keys(view, cache->table(), *batch);
    for (size_t i = 0; i < batch->num_words; ++i) {
      ASSERT_EQ(batch->keys[i], expected->keys[i]);
      ASSERT_EQ(batch->offsets[i], expected->offsets[i]);
    }
    static Id expected_ids[(kBatchWords + 1) * 32], ids[(kBatchWords + 1) * 32];
    for (size_t i = 0; i < batch->num_words; ++i) {
      Id *expected_next = expected_ids, *next = ids;
      const size_t expected_end =
          plain.copy_known(view, cache->table(), *expected, i, expected_next);
      ASSERT_EQ(steps.copy_known(view, cache->table(), *batch, i, next), expected_end);
      ASSERT_EQ(std::vector<Id>(ids, next), std::vector<Id>(expected_ids, expected_next));
      i = expected_end;
      if (i == batch->num_words) break;
      const std::string_view word =
          view.substr(batch->begin_of(i), batch->ends[i] - batch->begin_of(i));
      if (word.size() > WordKey::kMaxKeptBytes) continue;
      if (cache->find_and_advance(batch->offsets[i], batch->keys[i], word)) continue;
      std::vector<Id> word_ids(1 + random() % std::min<size_t>(word.size(), 40));
      for (Id& id : word_ids) id = static_cast<Id>(random());
      if (!cache->has_room(word.size())) cache->clear();
      if (cache->insert(batch->keys[i], word, std::span<const Id>(word_ids))) break;
    }
  }
}

#if defined(__aarch64__)

TEST(WordBatch, StepsOfNeonEqualPlainOnes) {
  expect_same_steps<uint16_t>(Simd::kNeon, 35);
  expect_same_steps<uint32_t>(Simd::kNeon, 36);
}

#else

TEST(WordBatch, StepsOfAvx512EqualPlainOnes) {
  expect_same_steps<uint16_t>(Simd::kAvx512, 31);
  expect_same_steps<uint32_t>(Simd::kAvx512, 32);
}

TEST(WordBatch, StepsOfAvx2EqualPlainOnes) {
  expect_same_steps<uint16_t>(Simd::kAvx2, 33);
  expect_same_steps<uint32_t>(Simd::kAvx2, 34);
}

#endif

}  // namespace
}  // namespace weft
