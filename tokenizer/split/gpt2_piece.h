// One piece of GPT-2's pattern (gpt2_pattern.h) at a time, on every processor: what the vector
// splitters are tested against, and what they fall back to for pieces longer than a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

// Returns the length of the contraction that starts with the apostrophe at `p`, or 0. It must be in
// lower case, as in the released pattern.
inline size_t contraction_bytes(const uint8_t* p, const uint8_t* end) {
  if (end - p < 2) return 0;
  const uint8_t a = p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  const uint8_t b = p[2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Returns the end of the piece that starts at `p` < `end`.
const uint8_t* gpt2_piece_end(const uint8_t* p, const uint8_t* end);

// Does what SplitPattern::split says.
size_t split_gpt2_scalar(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);

}  // namespace weft
