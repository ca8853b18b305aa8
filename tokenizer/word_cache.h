// Remembers the ids of words, so that merging runs once per distinct word: 99 % of the words of
// English text have been seen before. Each thread has its own caches; nothing is shared or locked.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "tokenizer/zeroed_pages.h"

namespace weft {

static_assert(std::endian::native == std::endian::little, "keys are read as little-endian");

// Words of at most kKeyBytes - 1 bytes and kMaxIds ids, which must fit `Id` (unsigned). An entry
// has 2 * kKeyBytes bytes; a cache line holds one or two, which are looked at together.
template <size_t kKeyBytes, typename Id>
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = kKeyBytes - 1;
  static constexpr size_t kMaxIds = kKeyBytes / sizeof(Id) - 1;
  // copy_ids writes this many.
  static constexpr size_t kNumCopied = kMaxIds + 1;
  // 400 k short words, about as many as 1 GB of web text keeps repeating.
  static constexpr size_t kMaxCacheBytes = 16 << 20;

  static constexpr int32_t kMaxEntries = kMaxCacheBytes / (2 * kKeyBytes) / 4 * 3;

  // The bytes of a word, padded with zeros, and its length in the last byte: equal keys mean equal
  // words.
  using Key = std::array<uint64_t, kKeyBytes / 8>;

  struct alignas(2 * kKeyBytes) Entry {
    Key key;  // last word 0: empty (a word has at least one byte)
    Id ids[kMaxIds];
    Id num_ids;

    // Writes kNumCopied numbers, always, in one or two instructions; only the first num_ids mean
    // something.
    void copy_ids(Id* out) const { std::memcpy(out, ids, kKeyBytes); }
  };

  WordCache() { resize(kFirstLines); }

  // `word` must have 1 to kMaxWordBytes bytes, and kKeyBytes bytes must be readable at its start.
  static Key key_of_readable(const char* word, size_t num_bytes) {
    Key key;
    std::memcpy(key.data(), word, kKeyBytes);
    for (size_t i = 0; i < key.size(); ++i) key[i] &= kLengthMasks[num_bytes][i];
    key.back() |= static_cast<uint64_t>(num_bytes) << 56;
    return key;
  }
  static Key key_of(std::string_view word) {
    char padded[kKeyBytes] = {};
    std::memcpy(padded, word.data(), word.size());
    return key_of_readable(padded, word.size());
  }
  static uint64_t hash_of(const Key& key) {
    uint64_t hash = 0;
    for (size_t i = 0; i < key.size(); i += 2) {
      const Product product = static_cast<Product>(key[i] ^ hash ^ 0x9E3779B97F4A7C15) *
                              (key[i + 1] ^ 0xD6E8FEB86659FD93);
      hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
    return hash;
  }

  // Brings the memory of a key with this hash closer.
  template <int kLocality>
  void prefetch(uint64_t hash) const {
    __builtin_prefetch(&lines_[hash >> shift_], 0, kLocality);
  }

  // Nothing if absent. Valid until the next insert.
  const Entry* find(const Key& key, uint64_t hash) const {
    const Line* line = &lines_[hash >> shift_];
    for (;;) {
      const Entry& last = line->entries[kLineEntries - 1];
      const bool is_first = is_equal(line->entries[0].key, key), is_last = is_equal(last.key, key);
      if (is_first | is_last) return is_first ? line->entries : &last;
      if (last.key.back() == 0) return nullptr;
      if (++line == lines_ + num_lines_) line = lines_;
    }
  }
  const Entry* find(const Key& key) const { return find(key, hash_of(key)); }

  // False: it must be cleared before the next insert.
  bool has_room() const { return num_lines_ < kMaxLines || !is_crowded(); }

  // `num_ids` must be 1 to kMaxIds, the key must be absent, and there must be room.
  void insert(const Key& key, const int32_t* ids, size_t num_ids) {
    if (is_crowded()) resize(2 * num_lines_);
    Entry entry{};
    entry.key = key;
    std::copy(ids, ids + num_ids, entry.ids);
    entry.num_ids = static_cast<Id>(num_ids);
    place(entry);
  }

  void clear() { resize(num_lines_); }

 private:
  __extension__ using Product = unsigned __int128;

  static constexpr size_t kLineEntries = 64 / sizeof(Entry);
  struct alignas(64) Line {
    Entry entries[kLineEntries];  // filled from the first: the last is empty if nothing overflowed
  };
  static constexpr size_t kMaxLines = kMaxCacheBytes / sizeof(Line);
  static constexpr size_t kFirstLines = kMaxLines / 4;

  static constexpr auto kLengthMasks = [] {
    std::array<Key, kKeyBytes> masks{};
    for (size_t num_bytes = 0; num_bytes < kKeyBytes; ++num_bytes) {
      for (size_t i = 0; i < num_bytes; ++i)
        masks[num_bytes][i / 8] |= uint64_t{0xFF} << (8 * (i % 8));
    }
    return masks;
  }();

  // GCC makes a call of memcmp out of ==.
  static bool is_equal(const Key& a, const Key& b) {
    uint64_t difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
    return difference == 0;
  }

  bool is_crowded() const { return 4 * (num_used_ + 1) > 3 * num_lines_ * kLineEntries; }

  // Keeps the entries if it grows, else none.
  void resize(size_t num_lines) {
    ZeroedPages old_pages(num_lines * sizeof(Line));
    std::swap(old_pages, pages_);
    const Line* const old_lines = std::exchange(lines_, static_cast<Line*>(pages_.data()));
    const size_t num_old_lines = std::exchange(num_lines_, num_lines);
    shift_ = 64 - std::countr_zero(num_lines);
    num_used_ = 0;
    for (size_t i = 0; num_old_lines < num_lines && i < num_old_lines; ++i) {
      for (const Entry& entry : old_lines[i].entries) {
        if (entry.key.back() != 0) place(entry);
      }
    }
  }

  void place(const Entry& entry) {
    for (size_t i = hash_of(entry.key) >> shift_;; i = (i + 1) & (num_lines_ - 1)) {
      for (Entry& slot : lines_[i].entries) {
        if (slot.key.back() != 0) continue;
        slot = entry;
        ++num_used_;
        return;
      }
    }
  }

  ZeroedPages pages_;
  Line* lines_ = nullptr;  // in pages_; open addressing, a power of two of lines
  size_t num_lines_ = 0;
  size_t num_used_ = 0;
  int shift_ = 0;
};

// With 16-bit ids up to 15 bytes and 7 ids: 99.9 % of English, 96.6 % of multilingual words.
template <typename Id>
using ShortWordCache = WordCache<16, Id>;
// With 16-bit ids up to 31 bytes and 15 ids.
template <typename Id>
using LongWordCache = WordCache<32, Id>;

}  // namespace weft
