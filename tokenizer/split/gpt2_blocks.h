// GPT-2's pattern (gpt2_pattern.h) as an algebra of masks, for split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tokenizer/split/gpt2_piece.h"
#include "tokenizer/split/split_blocks.h"

namespace weft {
namespace {

// Marks the first bytes of the characters that end where `ends` has a bit. No white space has more
// than 3 bytes.
inline uint64_t first_bytes(uint64_t ends, uint64_t inner) {
  uint64_t firsts = ends & ~inner;
  for (int i = 0; i < 2; ++i) {
    ends = (ends & inner) >> 1;
    firsts |= ends & ~inner;
  }
  return firsts;
}

// Makes each contraction a piece: there is no start inside it and one behind it. What follows an
// apostrophe in the last two bytes lies partly in the next block, so nothing behind it is sure
// then.
inline uint64_t cut_contractions(const uint8_t* block, uint64_t starts, uint64_t apostrophes) {
  for (uint64_t left = starts & apostrophes; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    const uint64_t bit = uint64_t{1} << i;
    if (i >= 62) return starts & ~(bit << 1);
    if (const size_t num_bytes = contraction_bytes(block + i, block + kBlockBytes)) {
      starts = (starts & ~(bit << 1)) | bit << num_bytes;
    }
  }
  return starts;
}

// Finds the piece starts in a block without contractions whose first byte is one. Starts that
// depend on what follows the block are left out: white space in the last byte counts as followed by
// more.
inline uint64_t starts_by_class(const BlockMasks& masks, uint64_t inner) {
  const uint64_t letters = masks.letters, numbers = masks.numbers, white = masks.white_space;
  const uint64_t other = ~(letters | numbers | white);
  const uint64_t like_the_one_before =
      (letters & letters << 1) | (numbers & numbers << 1) | (other & other << 1);
  const uint64_t word_starts = ~white & ~like_the_one_before & ~(masks.spaces << 1);
  // The first character of a run of white space starts a piece, and so does the last one if
  // something else follows.
  uint64_t last_white = white & ~(white >> 1 | uint64_t{1} << 63);
  if (inner != 0) last_white = first_bytes(last_white, inner);
  return word_starts | (white & ~(white << 1)) | last_white;
}

// `Instructions` has in addition:
//   // Does what cut_contractions does, or does it faster.
//   static uint64_t cut(const uint8_t* block, uint64_t starts, const Masks& masks);
struct Gpt2Blocks {
  template <typename Instructions, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t* block, const Masks& masks,
                                                       uint64_t inner) {
    return Instructions::cut(block, starts_by_class(masks, inner), masks);
  }
  static const uint8_t* piece_end(const uint8_t* p, const uint8_t* end) {
    return gpt2_piece_end(p, end);
  }
};

}  // namespace
}  // namespace weft
