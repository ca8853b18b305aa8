// Answers in a few nanoseconds what merging asks of a vocabulary.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Immutable once built, thread-safe.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  static constexpr int32_t kNoByte = -1;
  struct Rule {
    uint32_t rank = kNoRank;  // lowest is applied first; kNoRank: the pair does not merge
    int32_t result = 0;
  };

  // Makes room for `max_rules` rules.
  explicit MergeTable(size_t max_rules);

  // Returns false if the pair has a rule already. Both ids must be >= 0.
  bool add(int32_t left, int32_t right, Rule rule);
  void set_byte(uint8_t byte, int32_t id) { byte_ids_[byte] = id; }
  // Allows the byte pairs inside `entry` (see may_touch).
  void add_entry(const std::string& entry);

  Rule find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    const uint64_t hash = hash_of(key);
    if (!is_hint_set(hash)) return {};
    for (size_t i = hash >> shift_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].rule;
      if (slots_[i].key == kEmpty) return {};
    }
  }
  // Id of the entry of one byte, or kNoByte.
  int32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }

  // True if some entry contains these two bytes next to each other. Where it is false no token can
  // reach across, so the word may be cut there and its parts merged apart: merges on either side
  // never meet. Of GPT-2's 65,536 byte pairs only 2,689 are possible, which keeps words without
  // spaces (Han, Thai, base64) short.
  bool may_touch(uint8_t left, uint8_t right) const { return byte_pairs_[left << 8 | right]; }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    uint64_t key = kEmpty;
    Rule rule;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Fibonacci hashing: the high bits of the product depend on every bit of the key.
  static uint64_t hash_of(uint64_t key) { return (key ^ key >> 29) * 0x9E3779B97F4A7C15; }
  bool is_hint_set(uint64_t hash) const {
    const uint64_t bit = hash >> hint_shift_;
    return hints_[bit / 64] >> bit % 64 & 1;
  }

  // One bit for each of many more hashes than rules: it answers nearly all questions for pairs
  // without a rule, which most are, from memory that stays in the L2 cache (128 KiB for GPT-2).
  std::vector<uint64_t> hints_;
  std::vector<Slot> slots_;  // open addressing, at most half full
  size_t mask_;
  int shift_, hint_shift_;
  std::array<int32_t, 256> byte_ids_;
  std::bitset<65536> byte_pairs_;
};

}  // namespace weft
