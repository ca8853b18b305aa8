// The pattern of o200k and Tekken (o200k_piece.h) as an algebra of masks, for split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/o200k_piece.h"
#include "tokenizer/split/shared_blocks.h"

namespace weft {
namespace {

template <O200kRules rules>
struct O200kBlocks : BlockPattern {
  static constexpr PieceEnd kPieceEnd = o200k_piece_end<rules>;
  static constexpr bool kAnyCase = true;

  template <typename Instructions, bool is_last, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t* block, const Masks& masks,
                                                       uint64_t inner) {
    const uint64_t words = masks.letters | masks.marks;
    const uint64_t white = masks.white_space, newlines = masks.newlines;
    const uint64_t others = ~(words | masks.numbers | white);
    // Ends of lines and slashes behind others belong to their piece.
    const uint64_t lines_or_slashes = newlines | masks.slashes;
    const uint64_t taken = continued(others << 1 & newlines, lines_or_slashes);
    const uint64_t free_others = others & ~taken;
    const uint64_t other_starts = free_others & ~(free_others << 1) & ~(masks.spaces << 1);
    uint64_t prefixes = other_starts;
    if (inner != 0) prefixes |= continued(prefixes << 1 & inner, inner);
    prefixes |= white & ~newlines;
    uint64_t found = (words & ~(words << 1) & ~(prefixes << 1)) | other_starts |
                     number_starts<rules.max_numbers>(masks.numbers, inner) |
                     line_starts<is_last>(white, newlines, taken, inner);
    // A mark behind a character of no word may belong to its piece, or begin one.
    uint64_t unsure = masks.marks & ~inner & others << 1;
    found |= capital_starts(masks, words, inner, unsure);
    if constexpr (rules.has_contractions)
      found = join_contractions<Instructions>(block, masks, words, found, unsure);
    return unsure == 0 ? found : found & ((unsure & -unsure) - 1) & ~uint64_t{1};
  }

 private:
  // Starts of words at capitals inside of runs of letters and marks.
  [[gnu::always_inline]] static inline uint64_t capital_starts(const BlockMasks& masks,
                                                               uint64_t words, uint64_t inner,
                                                               uint64_t& unsure) {
    const uint64_t upper = masks.upper, caseless = masks.caseless | masks.marks;
    const uint64_t not_upper = words & ~upper;
    // Behind a small letter, and what has no case, a capital begins the next word.
    const uint64_t behind_lower = continued(not_upper & ~caseless, not_upper) << 1;
    const uint64_t capitals = upper & ~inner;
    uint64_t found = capitals & behind_lower;
    // A word without small letters ends behind the last character that has no case, unless there
    // is none: capitals behind that one are the next word.
    for (uint64_t left = capitals & caseless << 1 & ~behind_lower; left != 0; left &= left - 1) {
      const uint64_t bit = left & -left;
      const uint64_t behind = ~upper & ~(bit - 1);
      if (behind == 0) {
        unsure |= bit;
      } else if ((behind & -behind & words) == 0) {
        found |= bit;
      }
    }
    return found;
  }

  // A contraction belongs to the word before it.
  template <typename Instructions, typename Masks>
  [[gnu::always_inline]] static inline uint64_t join_contractions(const uint8_t* block,
                                                                  const Masks& masks,
                                                                  uint64_t words, uint64_t found,
                                                                  uint64_t& unsure) {
    const uint64_t apostrophes = masks.apostrophes & words << 1;
    const auto [two, three] =
        Instructions::template contractions<kAnyCase>(block, apostrophes, masks);
    const uint64_t ends = two << 2 | three << 3;
    // Letters behind a contraction are a new word, and another apostrophe begins a piece: the next
    // block begins there. What follows an apostrophe in the last two bytes lies in that, too.
    unsure |= (ends & (words | masks.apostrophes)) << 1 | (apostrophes & uint64_t{3} << 62);
    const uint64_t joined = two | three;
    return (found & ~(joined | joined << 1 | three << 2)) | ends;
  }
};

}  // namespace
}  // namespace weft
