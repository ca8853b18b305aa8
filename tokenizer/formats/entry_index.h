// From the text of an entry to its id.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace weft {

// Open addressing, at most half full: loading asks a million times. The texts must outlive it.
class EntryIndex {
 public:
  static constexpr int32_t kNoId = -1;

  explicit EntryIndex(size_t max_entries)
      : slots_(std::bit_ceil(2 * max_entries + 2)), mask_(slots_.size() - 1) {}

  // Returns false if the text has an id already.
  bool add(std::string_view text, int32_t id) {
    Slot& slot = slots_[slot_of(text)];
    if (slot.id != kNoId) return false;
    slot = {text, id};
    return true;
  }
  int32_t find(std::string_view text) const { return slots_[slot_of(text)].id; }

 private:
  struct Slot {
    std::string_view text;
    int32_t id = kNoId;
  };
  size_t slot_of(std::string_view text) const {
    size_t i = std::hash<std::string_view>()(text) & mask_;
    while (slots_[i].id != kNoId && slots_[i].text != text) i = (i + 1) & mask_;
    return i;
  }

  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace weft
