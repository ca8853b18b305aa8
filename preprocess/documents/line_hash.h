// A hash of the lines of a text, of which any parts in a row can be put together: it does not
// depend on who read how much of the text, nor on how the text was compressed.
//
//   hash := sum of XXH3-64(line i) * kBase^(n - 1 - i) for n lines, modulo 2^61 - 1
//
// Lines are without their ends. A line that is too long to be read counts by its length.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

class TextHash {
 public:
  TextHash() = default;
  explicit TextHash(uint64_t value) : value_(value % kModulus) {}  // of a text hashed before

  void add_line(std::string_view line);
  // A line whose line_hash is known.
  void add_line_hash(uint64_t hash) { add_hash(hash); }
  void add_too_long_line(int64_t num_bytes);
  // Appends a text of `num_lines` lines.
  void add(const TextHash& next, int64_t num_lines);

  uint64_t value() const { return value_; }  // below 2^61

 private:
  static constexpr uint64_t kModulus = (uint64_t{1} << 61) - 1;
  // Any number will do: 2^60 - 93, the largest prime below 2^60.
  static constexpr uint64_t kBase = (uint64_t{1} << 60) - 93;

  void add_hash(uint64_t hash);
  static uint64_t multiply(uint64_t a, uint64_t b);
  static uint64_t power(uint64_t base, int64_t exponent);

  uint64_t value_ = 0;
};

// line_hash of a line that comes in parts.
class LineHasher {
 public:
  LineHasher();
  ~LineHasher();
  LineHasher(const LineHasher&) = delete;
  LineHasher& operator=(const LineHasher&) = delete;
  void add(std::string_view part);
  uint64_t hash() const;

 private:
  void* state_;  // of the library
};

// XXH3-64, which is the same whatever instructions compute it.
uint64_t line_hash(std::string_view line);
uint64_t line_hash_plain(std::string_view line);
uint64_t line_hash_avx2(std::string_view line);
uint64_t line_hash_avx512(std::string_view line);

}  // namespace weft
