// The pattern of Llama-3 and its relatives (llama3_piece.h) as an algebra of masks, for
// split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/llama3_piece.h"
#include "tokenizer/split/shared_blocks.h"

namespace weft {
namespace {

template <Llama3Rules rules>
struct Llama3Blocks : BlockPattern {
  static constexpr PieceEnd kPieceEnd = llama3_piece_end<rules>;
  static constexpr bool kAnyCase = true;

  template <typename Instructions, bool is_last, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t* block, const Masks& masks,
                                                       uint64_t inner) {
    const uint64_t words = masks.letters | ((rules.words & kMarks) != 0 ? masks.marks : 0);
    const uint64_t numbers = masks.numbers, white = masks.white_space, newlines = masks.newlines;
    const uint64_t others = ~(words | numbers | white);
    // Ends of lines behind others belong to their piece.
    const uint64_t taken = continued(others << 1 & newlines, newlines);
    const uint64_t other_starts = others & ~(others << 1) & ~(masks.spaces << 1);
    // One other character that starts a piece is joined to the word behind it, and so is white
    // space that ends no line.
    uint64_t prefixes = other_starts;
    if (inner != 0) prefixes |= continued(prefixes << 1 & inner, inner);
    prefixes |= white & ~newlines;
    const uint64_t word_starts = words & ~(words << 1) & ~(prefixes << 1);
    constexpr bool kRunsEndInBlock = is_last && !rules.end_first;
    const uint64_t found = word_starts | other_starts |
                           number_starts<rules.max_numbers>(numbers, inner) |
                           line_starts<kRunsEndInBlock>(white, newlines, taken, inner);
    if constexpr (!rules.has_contractions) return found;
    return cut_contractions<Instructions, kAnyCase>(block, found, other_starts & masks.apostrophes,
                                                    masks);
  }
};

}  // namespace
}  // namespace weft
