// Looks a batch of words up in the cache, in two steps: first all keys are made and their lines of
// the table fetched; then the ids of known words are copied until a word is not known.
//
// Both steps exist for AVX-512 and in plain code, with equal results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/known_words/word_cache.h"
#include "tokenizer/split/simd.h"
#include "tokenizer/split/split_pattern.h"

namespace weft {

// The lines of 256 words fill a third of an L1 cache.
inline constexpr size_t kBatchWords = kSplitBatch;

struct WordBatch {
  // A word longer than the cache keeps has a key that no entry has.
  static constexpr WordKey kNotKept = {0, WordKey::kLong - 1};

  alignas(64) size_t ends[kBatchWords];
  alignas(64) WordKey keys[kBatchWords + 8];
  alignas(
      64) uint32_t offsets[kBatchWords + 8];  // where each word's line lies in the table, in bytes
  size_t begin, num_words;

  size_t begin_of(size_t i) const { return i == 0 ? begin : ends[i - 1]; }
};

// Both versions use these. The key of a word of over WordKey::kMaxBytes bytes:
WordKey key_of_long_word(const char* word, size_t num_bytes);
// Counts the words at whose start a whole key's bytes are readable: all but the last few of a text.
size_t count_readable_words(std::string_view text, const WordBatch& batch);
// Makes the keys of the words from `first` on, where that is not so.
void make_last_keys(std::string_view text, size_t first, WordBatch& batch);

template <typename Id>
struct WordBatchSteps {
  // Fills in keys and offsets of the words of `text` that batch.begin and batch.ends tell, and
  // prefetches their lines. It must be called again when the cache's entries have moved.
  void (*make_keys)(std::string_view text, WordTable table, WordBatch& batch);
  // Copies the ids of words from number `first` on to `next_id`, at most WordCache<Id>::kNumCopied
  // of each; so many more than needed must have room. Returns the number of the first word that is
  // not found at once (it is absent, very long, has more ids, or its line overflowed), or
  // batch.num_words.
  size_t (*copy_known)(std::string_view text, WordTable table, const WordBatch& batch, size_t first,
                       Id*& next_id);
};

// Returns the steps for instructions that this processor has. `Id` is uint16_t or uint32_t.
template <typename Id>
WordBatchSteps<Id> word_batch_steps(Simd simd);

#if defined(__x86_64__)
template <typename Id>
WordBatchSteps<Id> word_batch_steps_avx512();
#endif

}  // namespace weft
