// Remembers the ids of words, so that merging runs once per distinct word: 99 % of the words of
// English text have been seen before. Each thread has its own cache; nothing is shared or locked.
//
// One table for all words. An entry of 32 bytes has a key of 16 and ids of 16 bytes; two entries
// fill a cache line and are looked at together.
//
//   short word, few ids    key: its bytes (up to 15) and its length in the last byte; the ids
//   any other              key: the same, or a hash of 120 bits and 255 in the last byte; how many
//                          ids, and where in the arena they are, with a long word's bytes, which
//                          are compared
//
// A word whose line is full lies in one of the next. When it is found there, it changes places with
// one of its line, so that words that come often are found at once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "tokenizer/known_words/word_key.h"
#include "tokenizer/merge/zeroed_pages.h"

namespace weft {

// Lets word_batch look entries up itself: the line of a word is number hash() >> shift.
struct WordTable {
  const char* lines;
  const char* arena;
  int shift;
};
inline constexpr int kWordLineShift = 6;
inline constexpr size_t kWordLineBytes = size_t{1} << kWordLineShift;

// Ids must fit `Id` (unsigned, 16 or 32 bits).
template <typename Id>
class WordCache {
 public:
  // So many ids lie beside the key. With ids of 16 bits, 99.9 % of the words of English and 96.6 %
  // of those of multilingual text have no more and a short key.
  static constexpr size_t kMaxInlineIds = 16 / sizeof(Id) - 1;
  // So many ids, and long words of so many bytes, are read and written at once.
  static constexpr size_t kNumCopied = 64 / sizeof(Id);
  static constexpr size_t kMaxCompared = 64;
  // There is room for a million words, as many as 1 GB of web text has, and for the records of
  // 100,000 long ones.
  static constexpr size_t kMaxTableBytes = 32 << 20;
  static constexpr size_t kMaxArenaBytes = 8 << 20;

  struct alignas(32) Entry {
    WordKey key;
    Id ids[kMaxInlineIds];  // or a RecordPlace
    Id num_ids;             // with kHasRecord, if there is a record

    static constexpr Id kHasRecord = 0x8000;
    bool has_record() const { return num_ids > kMaxInlineIds; }
    size_t num_record_ids() const { return num_ids - kHasRecord; }
  };
  // A record is the ids of a word and, if the word is long, its bytes behind them.
  struct RecordPlace {
    uint32_t offset_bytes;  // in the arena
    uint16_t num_word_bytes;

    static RecordPlace of(const void* entry_ids) {
      RecordPlace place;
      std::memcpy(&place, entry_ids, sizeof(place));
      return place;
    }
  };
  static_assert(sizeof(RecordPlace) <= kMaxInlineIds * sizeof(Id));
  static constexpr size_t kLineEntries = 2;
  struct alignas(kWordLineBytes) Line {
    Entry entries[kLineEntries];  // filled from the first: the last is empty if nothing overflowed
  };
  static constexpr int32_t kMaxEntries = kMaxTableBytes / sizeof(Entry) / 4 * 3;

  WordCache() : arena_pages_(kMaxArenaBytes) { resize(kFirstLines); }

  WordTable table() const { return {reinterpret_cast<const char*>(lines_), arena(), shift_}; }

  // Returns the entry of a word, whose key is `key`, or null. It is valid until the cache changes.
  const Entry* find(const WordKey& key, std::string_view word) const {
    return find_from((key.hash() >> shift_) * sizeof(Line), key, word);
  }
  // Does the same for a line that begins at a known offset in the table, in bytes. An entry that
  // lay behind its line is moved there.
  const Entry* find_and_advance(size_t offset, const WordKey& key, std::string_view word) {
    auto* const entry = const_cast<Entry*>(find_from(offset, key, word));
    Line& line = lines_[offset / sizeof(Line)];
    if (entry == nullptr || (entry >= line.entries && entry < line.entries + kLineEntries))
      return entry;
    // The line is full, as are all up to the entry's: whatever lies in the one is also found in the
    // other.
    Entry& first = line.entries[next_moved_++ % kLineEntries];
    std::swap(first, *entry);
    return &first;
  }

  // Returns the ids of an entry that this cache has found.
  std::span<const Id> ids_of(const Entry& entry) const {
    return entry.has_record() ? record_of(entry).ids : std::span(entry.ids, entry.num_ids);
  }

  // If it returns false, the cache must be cleared before a word of so many bytes is inserted.
  bool has_room(size_t num_bytes) const {
    return (num_lines_ < kMaxLines || !is_crowded()) &&
           num_arena_bytes_ + record_bytes(num_bytes, num_bytes) + kNumCopied * sizeof(Id) <=
               kMaxArenaBytes;
  }

  // The word must have 1 to WordKey::kMaxKeptBytes bytes and be absent, `ids` have 1 to as many,
  // and there must be room. Returns true if all entries have moved.
  template <typename SomeId>
  bool insert(const WordKey& key, std::string_view word, std::span<const SomeId> ids) {
    const bool grows = is_crowded();
    if (grows) resize(2 * num_lines_);
    Entry entry{};
    entry.key = key;
    if (!key.is_long() && ids.size() <= kMaxInlineIds) {
      copy_as_ids(ids, entry.ids);
      entry.num_ids = static_cast<Id>(ids.size());
    } else {
      const RecordPlace place = add_record(key.is_long() ? word : std::string_view(), ids);
      std::memcpy(entry.ids, &place, sizeof(place));
      entry.num_ids = static_cast<Id>(Entry::kHasRecord + ids.size());
    }
    place(entry);
    return grows;
  }

  void clear() {
    num_arena_bytes_ = 0;
    resize(num_lines_);
  }

 private:
  static constexpr size_t kMaxLines = kMaxTableBytes / sizeof(Line);
  static constexpr size_t kFirstLines = kMaxLines / 4;

  struct Record {
    std::string_view word;
    std::span<const Id> ids;
  };
  // Reading kNumCopied ids does not leave the arena.
  static size_t record_bytes(size_t num_bytes, size_t num_ids) {
    return (num_ids * sizeof(Id) + num_bytes + 7) / 8 * 8;
  }
  // Compares two words of 16 bytes or more. Calling memcmp would take longer.
  static bool is_long_word(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    uint64_t difference = 0;
    const auto compare_16 = [&](size_t i) {
      uint64_t x[2], y[2];
      std::memcpy(x, a.data() + i, sizeof(x));
      std::memcpy(y, b.data() + i, sizeof(y));
      difference |= (x[0] ^ y[0]) | (x[1] ^ y[1]);
    };
    for (size_t i = 0; i + 16 < a.size(); i += 16) compare_16(i);
    compare_16(a.size() - 16);
    return difference == 0;
  }
  char* arena() const { return static_cast<char*>(arena_pages_.data()); }

  const Entry* find_from(size_t offset, const WordKey& key, std::string_view word) const {
    for (size_t i = offset / sizeof(Line);; i = (i + 1) & (num_lines_ - 1)) {
      for (const Entry& entry : lines_[i].entries) {
        if (entry.key == key && (!key.is_long() || is_long_word(record_of(entry).word, word)))
          return &entry;
        if (entry.key.is_empty()) return nullptr;
      }
    }
  }

  Record record_of(const Entry& entry) const {
    const auto place = RecordPlace::of(entry.ids);
    const auto* const ids = reinterpret_cast<const Id*>(arena() + place.offset_bytes);
    const size_t num_ids = entry.num_record_ids();
    return {{reinterpret_cast<const char*>(ids + num_ids), place.num_word_bytes}, {ids, num_ids}};
  }

  template <typename SomeId>
  static void copy_as_ids(std::span<const SomeId> ids, Id* out) {
    std::transform(ids.begin(), ids.end(), out, [](SomeId id) { return static_cast<Id>(id); });
  }

  template <typename SomeId>
  RecordPlace add_record(std::string_view word, std::span<const SomeId> ids) {
    auto* const record_ids = reinterpret_cast<Id*>(arena() + num_arena_bytes_);
    copy_as_ids(ids, record_ids);
    // The word has no bytes here, at null, where the key holds it: memcpy must not be called for
    // them.
    std::copy(word.begin(), word.end(), reinterpret_cast<char*>(record_ids + ids.size()));
    const RecordPlace place{static_cast<uint32_t>(num_arena_bytes_),
                            static_cast<uint16_t>(word.size())};
    num_arena_bytes_ += record_bytes(word.size(), ids.size());
    return place;
  }

  bool is_crowded() const { return 4 * (num_used_ + 1) > 3 * num_lines_ * kLineEntries; }

  // Keeps the entries if the table grows; else keeps none.
  void resize(size_t num_lines) {
    ZeroedPages old_pages(num_lines * sizeof(Line));
    std::swap(old_pages, pages_);
    const Line* const old_lines = std::exchange(lines_, static_cast<Line*>(pages_.data()));
    const size_t num_old_lines = std::exchange(num_lines_, num_lines);
    shift_ = 32 - std::countr_zero(num_lines);
    num_used_ = 0;
    for (size_t i = 0; num_old_lines < num_lines && i < num_old_lines; ++i) {
      for (const Entry& entry : old_lines[i].entries) {
        if (!entry.key.is_empty()) place(entry);
      }
    }
  }

  void place(const Entry& entry) {
    for (size_t i = entry.key.hash() >> shift_;; i = (i + 1) & (num_lines_ - 1)) {
      for (Entry& slot : lines_[i].entries) {
        if (!slot.key.is_empty()) continue;
        slot = entry;
        ++num_used_;
        return;
      }
    }
  }

  ZeroedPages pages_, arena_pages_;
  Line* lines_ = nullptr;  // in pages_; open addressing, a power of two of lines
  size_t num_lines_ = 0;
  size_t num_used_ = 0;
  size_t num_arena_bytes_ = 0;
  size_t next_moved_ = 0;
  int shift_ = 0;
};

}  // namespace weft
