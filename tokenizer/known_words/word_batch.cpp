#include "tokenizer/known_words/word_batch.h"

#include <cstring>

namespace weft {
namespace {

void make_keys(std::string_view text, WordTable table, WordBatch& batch) {
  const size_t num_readable = count_readable_words(text, batch);
  for (size_t i = 0; i < num_readable; ++i) {
    const char* const word = text.data() + batch.begin_of(i);
    const size_t num_bytes = batch.ends[i] - batch.begin_of(i);
    batch.keys[i] = num_bytes <= WordKey::kMaxBytes ? WordKey::of_readable(word, num_bytes)
                                                    : key_of_long_word(word, num_bytes);
  }
  make_last_keys(text, num_readable, batch);
  for (size_t i = 0; i < batch.num_words; ++i) {
    batch.offsets[i] = (batch.keys[i].hash() >> table.shift) * kWordLineBytes;
    __builtin_prefetch(table.lines + batch.offsets[i]);
  }
}

template <typename Id>
size_t copy_known(std::string_view text, WordTable table, const WordBatch& batch, size_t first,
                  Id*& next_id) {
  using Cache = WordCache<Id>;
  Id* next = next_id;
  size_t i = first;
  for (; i < batch.num_words; ++i) {
    const auto& line =
        *reinterpret_cast<const typename Cache::Line*>(table.lines + batch.offsets[i]);
    const bool is_first = line.entries[0].key == batch.keys[i];
    const bool is_last = line.entries[1].key == batch.keys[i];
    if (!(is_first | is_last)) break;
    const auto& entry = line.entries[is_first ? 0 : 1];
    if (!entry.has_record()) {
      std::memcpy(next, entry.ids, 16);
      next += entry.num_ids;
      continue;
    }
    const auto place = Cache::RecordPlace::of(entry.ids);
    const size_t num_ids = entry.num_record_ids();
    const char* const record = table.arena + place.offset_bytes;
    if (num_ids > Cache::kNumCopied) break;
    if (batch.keys[i].is_long()) {
      const size_t begin = batch.begin_of(i), num_bytes = batch.ends[i] - begin;
      if (num_bytes != place.num_word_bytes || num_bytes > Cache::kMaxCompared) break;
      if (std::memcmp(text.data() + begin, record + num_ids * sizeof(Id), num_bytes) != 0) break;
    }
    std::memcpy(next, record, num_ids * sizeof(Id));
    next += num_ids;
  }
  next_id = next;
  return i;
}

}  // namespace

WordKey key_of_long_word(const char* word, size_t num_bytes) {
  if (num_bytes > WordKey::kMaxKeptBytes) return WordBatch::kNotKept;
  return WordKey::of_long({word, num_bytes});
}

size_t count_readable_words(std::string_view text, const WordBatch& batch) {
  size_t num_words = batch.num_words;
  while (num_words > 0 && batch.begin_of(num_words - 1) + sizeof(WordKey) > text.size())
    --num_words;
  return num_words;
}

void make_last_keys(std::string_view text, size_t first, WordBatch& batch) {
  if (first == batch.num_words) return;
  char padded[2 * sizeof(WordKey)] = {};
  const size_t padded_begin = batch.begin_of(first);
  std::memcpy(padded, text.data() + padded_begin, text.size() - padded_begin);
  for (size_t i = first; i < batch.num_words; ++i) {
    const size_t begin = batch.begin_of(i);
    batch.keys[i] = WordKey::of_readable(padded + (begin - padded_begin), batch.ends[i] - begin);
  }
}

template <typename Id>
WordBatchSteps<Id> word_batch_steps([[maybe_unused]] Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) return word_batch_steps_avx512<Id>();
#endif
  return {make_keys, copy_known<Id>};
}

template WordBatchSteps<uint16_t> word_batch_steps(Simd);
template WordBatchSteps<uint32_t> word_batch_steps(Simd);

}  // namespace weft
