// The contractions of English that patterns name: 's 't 'm 'd 're 've 'll.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// Returns the length of the contraction that starts with the apostrophe at `p`, or 0: in lower
// case, as in GPT-2's pattern.
inline size_t contraction_bytes(const uint8_t* p, const uint8_t* end) {
  if (end - p < 2) return 0;
  const uint8_t a = p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  const uint8_t b = p[2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// The same for (?i:...), which U+017F (C5 BF, a long s) is part of.
inline size_t any_case_contraction_bytes(const uint8_t* p, const uint8_t* end) {
  if (end - p >= 3 && p[1] == 0xC5 && p[2] == 0xBF) return 3;
  uint8_t lower_case[3];
  size_t num_bytes = 0;
  for (; num_bytes < 3 && p + num_bytes < end; ++num_bytes) {
    const uint8_t byte = p[num_bytes];
    lower_case[num_bytes] = byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
  }
  return contraction_bytes(lower_case, lower_case + num_bytes);
}

}  // namespace weft
