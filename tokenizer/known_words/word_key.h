// The key by which a word is found and compared: 16 bytes, which hold a short word as it is.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weft {

static_assert(std::endian::native == std::endian::little, "keys are read as little-endian");

// The bytes of a word of up to kMaxBytes, padded with zeros, and its length in the last byte, or a
// hash of a longer one. Equal keys of short words mean equal words.
struct WordKey {
  static constexpr size_t kMaxBytes = 15;
  // Longer words are not kept: in real text they do not come back.
  static constexpr size_t kMaxKeptBytes = 1024;
  static constexpr uint64_t kLong = uint64_t{0xFF} << 56;

  // `word` must have 1 to kMaxBytes bytes, and sizeof(WordKey) bytes must be readable at its start.
  static WordKey of_readable(const char* word, size_t num_bytes) {
    WordKey key;
    std::memcpy(&key, word, sizeof(key));
    const uint64_t num_low = std::min<uint64_t>(num_bytes, 8), num_high = num_bytes - num_low;
    key.low &= ~uint64_t{0} >> (64 - 8 * num_low);
    key.high &= (uint64_t{1} << 8 * num_high) - 1;
    key.high |= static_cast<uint64_t>(num_bytes) << 56;
    return key;
  }
  // `word` may be any word but an empty one.
  static WordKey of(std::string_view word) {
    if (word.size() > kMaxBytes) return of_long(word);
    char padded[sizeof(WordKey)] = {};
    std::memcpy(padded, word.data(), word.size());
    return of_readable(padded, word.size());
  }
  static WordKey of_long(std::string_view word) {
    uint64_t low = word.size(), high = 0x9E3779B97F4A7C15;
    const auto mix = [&](uint64_t a, uint64_t b) {
      const auto x = static_cast<Product>(a ^ low ^ 0xD6E8FEB86659FD93) * (b ^ 0xA0761D6478BD642F);
      const auto y = static_cast<Product>(b ^ high ^ 0xE7037ED1A0B428DB) * (a ^ 0x8EBC6AF09C88C6E3);
      low = static_cast<uint64_t>(x) ^ static_cast<uint64_t>(y >> 64);
      high = static_cast<uint64_t>(y) ^ static_cast<uint64_t>(x >> 64);
    };
    uint64_t part[2];
    for (size_t i = 0; i + 16 < word.size(); i += 16) {
      std::memcpy(part, word.data() + i, 16);
      mix(part[0], part[1]);
    }
    std::memcpy(part, word.data() + word.size() - 16, 16);  // a long word has 16 bytes
    mix(part[0], part[1]);
    return {low, high | kLong};
  }

  // Returns 32 bits, of which the highest are the best.
  uint32_t hash() const {
    const uint64_t first = low * kFirstFactor;
    return static_cast<uint32_t>(((first ^ first >> 32) + high) * kSecondFactor >> 32);
  }
  static constexpr uint64_t kFirstFactor = 0x9E3779B97F4A7C15, kSecondFactor = 0xD6E8FEB86659FD93;

  bool is_long() const { return high >= kLong; }
  bool is_empty() const { return high == 0; }
  bool operator==(const WordKey& other) const {
    return ((low ^ other.low) | (high ^ other.high)) == 0;
  }

  uint64_t low = 0, high = 0;

 private:
  __extension__ using Product = unsigned __int128;
};

}  // namespace weft
