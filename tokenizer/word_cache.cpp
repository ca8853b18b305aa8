#include "tokenizer/word_cache.h"

#include <bit>

namespace weft {
namespace {

// 2 MiB to begin with (a whole L2 cache), 16 MiB at most: 400 k words, as many as 1 GB of web text
// keeps repeating.
constexpr size_t kFirstSlots = 1 << 16;
constexpr size_t kMaxSlots = 1 << 19;
constexpr size_t kMaxLongWordBytes = 8 << 20;
// What one word costs in LongWordCache beside its bytes and ids: two allocations and the map's
// node.
constexpr size_t kLongWordOverheadBytes = 128;

static_assert(std::endian::native == std::endian::little, "keys and ids are read as little-endian");

}  // namespace

ShortWordCache::ShortWordCache() { resize(kFirstSlots); }

ShortWordCache::Key ShortWordCache::key_of(const char* word, size_t num_bytes, bool may_read_16) {
  uint64_t low = 0, high = 0;
  if (may_read_16) {
    std::memcpy(&low, word, 8);
    std::memcpy(&high, word + 8, 8);
    if (num_bytes < 8) {
      low &= (uint64_t{1} << (8 * num_bytes)) - 1;
      high = 0;
    } else {
      high &= (uint64_t{1} << (8 * (num_bytes - 8))) - 1;
    }
  } else {
    char padded[16] = {};
    std::memcpy(padded, word, num_bytes);
    std::memcpy(&low, padded, 8);
    std::memcpy(&high, padded + 8, 8);
  }
  return {low, high | static_cast<uint64_t>(num_bytes) << 56};
}

void ShortWordCache::Entry::copy_ids(int32_t* out) const {
  constexpr uint32_t kMask = (1 << 24) - 1;
  for (size_t i = 0; i < kMaxIds; ++i) {
    uint32_t four_bytes;  // the byte before each id is read too, so that the last one ends with the
                          // entry
    std::memcpy(&four_bytes, ids + 3 * i, 4);
    out[i] = static_cast<int32_t>(four_bytes >> 8 & kMask);
  }
}

void ShortWordCache::insert(const Key& key, const int32_t* ids, size_t num_ids) {
  if (4 * (num_used_ + 1) > 3 * entries_.size()) {
    resize(entries_.size() < kMaxSlots ? 2 * entries_.size() : 0);
  }
  Entry entry = {key, {}};
  entry.ids[0] = static_cast<uint8_t>(num_ids);
  for (size_t i = 0; i < num_ids; ++i) std::memcpy(entry.ids + 1 + 3 * i, &ids[i], 3);
  place(entry);
}

void ShortWordCache::place(const Entry& entry) {
  size_t i = slot_of(entry.key);
  while (entries_[i].key.high != 0) i = (i + 1) & mask_;
  entries_[i] = entry;
  ++num_used_;
}

// Grows to `num_slots`, or forgets every word for `num_slots` = 0.
void ShortWordCache::resize(size_t num_slots) {
  std::vector<Entry> old;
  num_used_ = 0;
  if (num_slots == 0) {
    entries_.assign(entries_.size(), Entry{});
    return;
  }
  old.swap(entries_);
  entries_.resize(num_slots);
  mask_ = num_slots - 1;
  shift_ = 64 - std::countr_zero(num_slots);
  for (const Entry& entry : old) {
    if (entry.key.high != 0) place(entry);
  }
}

const std::vector<int32_t>* LongWordCache::find(std::string_view word) const {
  const auto it = words_.find(word);
  return it == words_.end() ? nullptr : &it->second;
}

void LongWordCache::insert(std::string_view word, const int32_t* ids, size_t num_ids) {
  num_bytes_ += word.size() + num_ids * sizeof(int32_t) + kLongWordOverheadBytes;
  if (num_bytes_ > kMaxLongWordBytes) {
    words_.clear();
    num_bytes_ = 0;
  }
  words_.emplace(std::string(word), std::vector<int32_t>(ids, ids + num_ids));
}

}  // namespace weft
