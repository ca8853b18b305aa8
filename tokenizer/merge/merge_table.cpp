#include "tokenizer/merge/merge_table.h"

#include <bit>

namespace weft {

namespace {

// 8 bits a slot, 16 or more a rule: one question in 16 at most is let through in vain.
constexpr size_t kSlotsPerHintWord = 8;

}  // namespace

MergeTable::MergeTable(size_t max_rules) {
  const size_t num_slots = std::bit_ceil(2 * max_rules + 2);
  slots_.resize(num_slots);
  mask_ = num_slots - 1;
  shift_ = 64 - std::countr_zero(num_slots);
  const size_t num_hints = 64 * num_slots / kSlotsPerHintWord;
  hints_.resize(num_hints / 64 + 1);
  hint_shift_ = 64 - std::countr_zero(num_hints);
  byte_ids_.fill(kNoByte);
}

bool MergeTable::add(int32_t left, int32_t right, Rule rule) {
  const uint64_t key = key_of(left, right);
  const uint64_t hash = hash_of(key), hint = hash >> hint_shift_;
  size_t i = hash >> shift_;
  while (slots_[i].key != kEmpty) {
    if (slots_[i].key == key) return false;
    i = (i + 1) & mask_;
  }
  slots_[i] = {key, rule};
  hints_[hint / 64] |= uint64_t{1} << hint % 64;
  return true;
}

void MergeTable::add_entry(const std::string& entry) {
  for (size_t i = 0; i + 1 < entry.size(); ++i) {
    byte_pairs_.set(static_cast<uint8_t>(entry[i]) << 8 | static_cast<uint8_t>(entry[i + 1]));
  }
}

}  // namespace weft
