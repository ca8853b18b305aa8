// Turns ids into bytes.
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
  // Nearly all entries lie here. They are copied whole, whatever their length, in one instruction.
  struct ShortEntry {
    char bytes[kMaxShortBytes];
    uint8_t num_bytes;  // 0 if it is longer and lies in the vocabulary only
  };

  const Vocabulary* vocabulary_;
  std::vector<ShortEntry> entries_;
};

}  // namespace weft
