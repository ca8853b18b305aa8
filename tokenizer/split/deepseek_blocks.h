// DeepSeek's pattern (deepseek_piece.h) as an algebra of masks, for split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/deepseek_piece.h"
#include "tokenizer/split/shared_blocks.h"
#include "tokenizer/split/split_blocks.h"

namespace weft {
namespace {

struct DeepSeekBlocks : BlockPattern {
  static constexpr PieceEnd kPieceEnd = deepseek_piece_end;
  static constexpr bool kAsksForPunctuation = true;

  template <typename Instructions, bool is_last, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t*, const Masks& masks,
                                                       uint64_t inner) {
    const uint64_t words = masks.letters, others = masks.punctuation | masks.symbols;
    const uint64_t numbers = masks.numbers, white = masks.white_space, newlines = masks.newlines;
    const uint64_t unmatched = ~(words | others | numbers | white);
    // A text of the third Split starts where Han and kana begin and where they end.
    const uint64_t han = masks.caseless | masks.symbols | masks.marks;
    const uint64_t cuts = han ^ han << 1;
    // Ends of lines behind others belong to their piece.
    const uint64_t taken = continued(others << 1 & newlines & ~cuts, newlines);
    const uint64_t other_starts = others & ~(others << 1 & ~cuts) & ~(masks.spaces << 1);
    // One ASCII character of these is joined to the ASCII letters behind it, and to no other ones.
    const uint64_t ascii_letters = words & ~masks.non_ascii;
    const uint64_t joined =
        continued((other_starts & ~masks.non_ascii) << 1 & ascii_letters, ascii_letters);
    // White space that ends no line, and what nothing else matches, is joined to the word behind.
    const uint64_t prefixes = (white & ~newlines) | unmatched;
    const uint64_t word_starts =
        (words & ~((words | prefixes) << 1) & ~joined) | (joined << 1 & words & ~joined);
    const uint64_t unmatched_starts =
        (unmatched & ~(unmatched << 1)) | first_bytes<4>(unmatched & (words & ~cuts) >> 1, inner);
    return cuts | word_starts | other_starts | unmatched_starts | number_starts<3>(numbers, inner) |
           line_starts<is_last>(white, newlines, taken, inner, cuts | numbers);
  }
};

}  // namespace
}  // namespace weft
