// Ids to bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class Vocabulary;

// Immutable, thread-safe. `vocabulary` must outlive it.
class Decoder {
 public:
  explicit Decoder(const Vocabulary& vocabulary);

  // Appends the bytes of `ids`. Throws std::out_of_range for an id that is not in the vocabulary.
  // `Id`: int32_t or uint16_t.
  template <typename Id>
  void decode(const Id* ids, size_t num_ids, std::string& text) const;

 private:
  static constexpr size_t kMaxShortBytes = 15;
  // Nearly all entries: copied whole, whatever their length, which takes one instruction.
  struct ShortEntry {
    char bytes[kMaxShortBytes];
    uint8_t num_bytes;  // 0: longer, ask the vocabulary
  };

  const Vocabulary* vocabulary_;
  std::vector<ShortEntry> entries_;
};

}  // namespace weft
