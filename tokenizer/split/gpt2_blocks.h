// GPT-2's pattern, StarCoder's and Falcon's (gpt2_piece.h) as an algebra of masks, for
// split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/gpt2_piece.h"
#include "tokenizer/pieces/split_kind.h"
#include "tokenizer/split/shared_blocks.h"
#include "tokenizer/split/split_blocks.h"

namespace weft {
namespace {

// `kind` is kGpt2, kStarCoder or kFalcon.
template <SplitKind kind>
struct Gpt2Blocks : BlockPattern {
  static constexpr bool kIsStarCoder = kind == SplitKind::kStarCoder;
  static constexpr bool kIsFalcon = kind == SplitKind::kFalcon;
  static constexpr PieceEnd kPieceEnd = kIsFalcon      ? falcon_piece_end
                                        : kIsStarCoder ? starcoder_piece_end
                                                       : gpt2_piece_end;
  static constexpr bool kAsksForPunctuation = kIsFalcon, kCutsCharacters = kIsFalcon;

  // White space in the last byte counts as followed by more.
  template <typename Instructions, bool is_last, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t* block, const Masks& masks,
                                                       uint64_t inner) {
    const uint64_t letters = masks.letters, numbers = masks.numbers, white = masks.white_space;
    // What another step has cut out before: the text of GPT-2's pattern ends there.
    const uint64_t stops = kIsFalcon ? masks.punctuation : kIsStarCoder ? numbers : 0;
    const uint64_t other = ~(letters | numbers | white | stops);
    const uint64_t like_the_one_before = (letters & letters << 1) | (numbers & numbers << 1) |
                                         (other & other << 1) | (stops & stops << 1);
    const uint64_t word_starts = ~white & ~like_the_one_before & ~(masks.spaces << 1 & ~stops);
    // The first character of a run of white space starts a piece, and so does the last one if
    // something else follows.
    const uint64_t found = word_starts | (white & ~(white << 1)) |
                           first_bytes(white & ~followed_by(white | stops), inner);
    if constexpr (kIsFalcon) return cut_bytes(masks, found);  // an apostrophe is punctuation
    return cut_contractions<Instructions, kAnyCase>(
        block, kIsStarCoder ? found | (numbers & ~inner) : found, found & masks.apostrophes, masks);
  }

 private:
  // Cuts pieces into numbers and others, and digits into threes, byte by byte.
  template <typename Masks>
  [[gnu::always_inline]] static inline uint64_t cut_bytes(const Masks& masks, uint64_t found) {
    const uint64_t digits = masks.numbers & ~masks.non_ascii, high = masks.falcon_numbers;
    found |= ((digits | high) ^ (digits | high) << 1) | number_starts<3>(digits, 0);
    // Digits behind a number that ends with such a byte are cut from the last one on.
    const uint64_t unsure = digits & (high & masks.numbers) << 1;
    return unsure == 0 ? found : found & ((unsure & -unsure) - 1) & ~uint64_t{1};
  }
};

}  // namespace
}  // namespace weft
