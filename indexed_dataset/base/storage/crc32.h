// CRC-32 (that of gzip) of bytes that are written to a file, so that they can be compared with what
// is read back from it. It is weaker than XXH3, but the checksums of neighbouring pieces can be
// joined, wherever a file was cut. One flipped bit, and any burst of 32, is found for certain,
// anything else but once in 2^32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

class Crc32 {
 public:
  Crc32() = default;
  Crc32(uint32_t value, int64_t num_bytes) : value_(value), num_bytes_(num_bytes) {}
  static Crc32 of(std::span<const std::byte> bytes) {
    Crc32 crc;
    crc.add(bytes);
    return crc;
  }

  void add(std::span<const std::byte> bytes);
  void append(const Crc32& next);  // the bytes behind; takes time in the logarithm of their number

  uint32_t value() const { return value_; }
  int64_t num_bytes() const { return num_bytes_; }
  bool operator==(const Crc32&) const = default;

 private:
  uint32_t value_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace weft
