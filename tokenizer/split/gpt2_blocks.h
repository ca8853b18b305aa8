// GPT-2's pattern (gpt2_piece.h) as an algebra of masks, for split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/gpt2_piece.h"
#include "tokenizer/split/shared_blocks.h"
#include "tokenizer/split/split_blocks.h"

namespace weft {
namespace {

struct Gpt2Blocks {
  static constexpr PieceEnd kPieceEnd = gpt2_piece_end;
  static constexpr bool kAnyCase = false;
  static constexpr bool kAsksForPunctuation = false;

  // White space in the last byte counts as followed by more.
  template <typename Instructions, bool is_last, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t* block, const Masks& masks,
                                                       uint64_t inner) {
    const uint64_t letters = masks.letters, numbers = masks.numbers, white = masks.white_space;
    const uint64_t other = ~(letters | numbers | white);
    const uint64_t like_the_one_before =
        (letters & letters << 1) | (numbers & numbers << 1) | (other & other << 1);
    const uint64_t word_starts = ~white & ~like_the_one_before & ~(masks.spaces << 1);
    // The first character of a run of white space starts a piece, and so does the last one if
    // something else follows.
    const uint64_t found =
        word_starts | (white & ~(white << 1)) | first_bytes(white & ~followed_by(white), inner);
    return cut_contractions<Instructions, kAnyCase>(block, found, found & masks.apostrophes, masks);
  }
};

}  // namespace
}  // namespace weft
