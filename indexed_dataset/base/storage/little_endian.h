// Numbers as they stand in files and messages: little-endian, at any address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft {

static_assert(std::endian::native == std::endian::little,
              "tokens and numbers go to files as they lie in memory: little-endian machines only");

template <typename T>
void store_number(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
T load_number(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A number of `num_bytes` bytes, at most 8.
inline uint64_t load_number(const void* at, size_t num_bytes) {
  uint64_t value = 0;
  std::memcpy(&value, at, num_bytes);
  return value;
}

}  // namespace weft
