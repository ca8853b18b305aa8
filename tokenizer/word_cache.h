// Remembers the ids of words, so that merging runs once per distinct word: 99 % of the words of
// English text have been seen before. Each thread has its own cache; nothing is shared or locked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

// Words of at most 15 bytes and 5 ids (99.6 % of English, 89 % of multilingual words) in 32-byte
// entries, two of which share a cache line. When it has grown to its limit and is three quarters
// full it forgets everything, which costs less than keeping count of use.
class ShortWordCache {
 public:
  static constexpr size_t kMaxWordBytes = 15;
  static constexpr size_t kMaxIds = 5;
  // Ids are stored in 24 bits.
  static constexpr int32_t kMaxVocabularySize = 1 << 24;

  // The bytes of a word, padded with zeros, and its length in the top byte: equal keys mean equal
  // words.
  struct Key {
    uint64_t low, high;
    bool operator==(const Key& other) const { return low == other.low && high == other.high; }
  };
  struct Entry {
    Key key;          // high == 0: empty (a word has at least one byte)
    uint8_t ids[16];  // number of ids, then the ids as 3-byte little-endian numbers
    size_t num_ids() const { return ids[0]; }
    // Writes kMaxIds numbers; only the first num_ids() mean something.
    void copy_ids(int32_t* out) const;
  };

  ShortWordCache();

  // `word` must have 1 to 15 bytes. `may_read_16`: 16 bytes may be read at `word`, whatever they
  // are.
  static Key key_of(const char* word, size_t num_bytes, bool may_read_16);

  // Nothing if absent. Valid until the next insert.
  const Entry* find(const Key& key) const {
    for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (entries_[i].key == key) return &entries_[i];
      if (entries_[i].key.high == 0) return nullptr;
    }
  }
  // `num_ids` must be 1 to kMaxIds, and the key must be absent.
  void insert(const Key& key, const int32_t* ids, size_t num_ids);

 private:
  size_t slot_of(const Key& key) const {
    // Words that differ in one byte must not share a slot: both halves go through a multiplication.
    uint64_t h = (key.low ^ (key.low >> 32)) * 0x9E3779B97F4A7C15;
    h = (h ^ (h >> 32) ^ key.high) * 0xD6E8FEB86659FD93;
    return static_cast<size_t>(h >> shift_);
  }
  void place(const Entry& entry);
  void resize(size_t num_slots);

  std::vector<Entry> entries_;
  size_t mask_ = 0, num_used_ = 0;
  int shift_ = 0;
};

// The rest: longer words and words of more ids.
class LongWordCache {
 public:
  // Longer words hardly ever come back.
  static constexpr size_t kMaxWordBytes = 256;

  // Nothing if absent. Valid until the next insert.
  const std::vector<int32_t>* find(std::string_view word) const;
  void insert(std::string_view word, const int32_t* ids, size_t num_ids);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words_;
  size_t num_bytes_ = 0;
};

}  // namespace weft
