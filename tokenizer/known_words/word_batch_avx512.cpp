// The steps of word_batch.h with AVX-512 BW and DQ. May be called only where
// has_simd(Simd::kAvx512).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tokenizer/known_words/word_batch.h"

// Only code that no other file compiles, too, may have these instructions. Entries are therefore
// read here without the functions of their class.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,lzcnt,popcnt")

namespace weft {
namespace {

// For each length of a short word: which bytes of a key are the word's, and the last byte.
struct alignas(64) LengthTables {
  uint8_t masks[16][16];
  uint8_t lengths[16][16];
};
constexpr LengthTables kLengthTables = [] {
  LengthTables tables{};
  for (int num_bytes = 0; num_bytes < 16; ++num_bytes) {
    for (int i = 0; i < num_bytes; ++i) tables.masks[num_bytes][i] = 0xFF;
    tables.lengths[num_bytes][15] = static_cast<uint8_t>(num_bytes);
  }
  return tables;
}();

__m128i load_16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// WordKey::hash of eight keys at a time, and from it the line.
void find_lines(WordTable table, WordBatch& batch) {
  const __m512i first_factor = _mm512_set1_epi64(static_cast<int64_t>(WordKey::kFirstFactor));
  const __m512i second_factor = _mm512_set1_epi64(static_cast<int64_t>(WordKey::kSecondFactor));
  const __m512i lows = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i highs = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
  const __m128i shift = _mm_cvtsi32_si128(32 + table.shift);
  for (size_t i = 0; i < batch.num_words; i += 8) {
    const __m512i a = _mm512_load_si512(&batch.keys[i]), b = _mm512_load_si512(&batch.keys[i + 4]);
    const __m512i first = _mm512_mullo_epi64(_mm512_permutex2var_epi64(a, lows, b), first_factor);
    const __m512i mixed = _mm512_xor_si512(first, _mm512_srli_epi64(first, 32));
    const __m512i hash = _mm512_mullo_epi64(
        _mm512_add_epi64(mixed, _mm512_permutex2var_epi64(a, highs, b)), second_factor);
    const __m512i offsets = _mm512_slli_epi64(_mm512_srl_epi64(hash, shift), kWordLineShift);
    _mm256_store_si256(reinterpret_cast<__m256i*>(batch.offsets + i),
                       _mm512_cvtepi64_epi32(offsets));
    for (size_t k = 0; k < 8; ++k) _mm_prefetch(table.lines + batch.offsets[i + k], _MM_HINT_T0);
  }
}

void make_keys(std::string_view text, WordTable table, WordBatch& batch) {
  const size_t num_readable = count_readable_words(text, batch);
  const char* const data = text.data();
  size_t begin = batch.begin;
  for (size_t i = 0; i < num_readable; ++i) {
    const size_t end = batch.ends[i], num_bytes = end - begin;
    if (num_bytes > WordKey::kMaxBytes) {
      batch.keys[i] = key_of_long_word(data + begin, num_bytes);
    } else {
      const __m128i bytes =
          _mm_and_si128(load_16(data + begin), load_16(kLengthTables.masks[num_bytes]));
      _mm_store_si128(reinterpret_cast<__m128i*>(&batch.keys[i]),
                      _mm_or_si128(bytes, load_16(kLengthTables.lengths[num_bytes])));
    }
    begin = end;
  }
  make_last_keys(text, num_readable, batch);
  find_lines(table, batch);
}

// Copies the ids of a word's record to `next` and returns their number; 0 if the plain code must do
// it. `i` is the word's number, `entry_ids` are the bytes of its entry that say where the record
// lies.
template <typename Id>
size_t copy_record(std::string_view text, WordTable table, const WordBatch& batch, size_t i,
                   const char* entry_ids, size_t num_ids, Id* next) {
  using Cache = WordCache<Id>;
  typename Cache::RecordPlace place;
  std::memcpy(&place, entry_ids, sizeof(place));
  const char* const record = table.arena + place.offset_bytes;
  if (num_ids > Cache::kNumCopied) return 0;
  if (batch.keys[i].high >= WordKey::kLong) {
    const size_t begin = i == 0 ? batch.begin : batch.ends[i - 1];
    const size_t num_bytes = batch.ends[i] - begin;
    if (num_bytes != place.num_word_bytes || num_bytes > Cache::kMaxCompared) return 0;
    const uint64_t mask = ~uint64_t{0} >> (64 - num_bytes);
    const __m512i word = _mm512_maskz_loadu_epi8(mask, text.data() + begin);
    const __m512i known = _mm512_maskz_loadu_epi8(mask, record + num_ids * sizeof(Id));
    if (_mm512_cmpneq_epi8_mask(word, known) != 0) return 0;
  }
  _mm512_storeu_si512(next, _mm512_loadu_si512(record));
  return num_ids;
}

template <typename Id>
size_t copy_known(std::string_view text, WordTable table, const WordBatch& batch, size_t first,
                  Id*& next_id) {
  using Cache = WordCache<Id>;
  Id* next = next_id;
  size_t i = first;
  for (; i < batch.num_words; ++i) {
    const char* const line = table.lines + batch.offsets[i];
    // Compares both entries at once: quadwords 0 and 1, 4 and 5 are keys.
    const __m512i key = _mm512_broadcast_i32x4(load_16(&batch.keys[i]));
    const uint32_t equal = _mm512_cmpeq_epi64_mask(key, _mm512_load_si512(line));
    const uint32_t found = equal & equal >> 1 & 0x11;
    if (found == 0) break;
    const char* const ids = line + (found & 0x10) * 2 + 16;
    size_t num_ids = reinterpret_cast<const Id*>(ids)[Cache::kMaxInlineIds];
    if (num_ids > Cache::kMaxInlineIds) [[unlikely]] {
      num_ids = copy_record(text, table, batch, i, ids, num_ids - Cache::Entry::kHasRecord, next);
      if (num_ids == 0) break;
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(next), load_16(ids));
    }
    next += num_ids;
  }
  next_id = next;
  return i;
}

}  // namespace

template <typename Id>
WordBatchSteps<Id> word_batch_steps_avx512() {
  return {make_keys, copy_known<Id>};
}

template WordBatchSteps<uint16_t> word_batch_steps_avx512();
template WordBatchSteps<uint32_t> word_batch_steps_avx512();

}  // namespace weft

#endif
