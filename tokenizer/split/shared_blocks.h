// Parts that the algebras of several patterns share: white space, numbers, contractions of English.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tokenizer/pieces/contraction.h"
#include "tokenizer/pieces/llama3_piece.h"
#include "tokenizer/split/split_blocks.h"

namespace weft {
namespace {

// Bits that have another behind them; what follows the block counts as one.
inline uint64_t followed_by(uint64_t bits) { return bits >> 1 | uint64_t{1} << 63; }

// Marks the first bytes of the characters that end where `ends` has a bit; white space has at most
// 3.
template <int max_bytes = 3>
inline uint64_t first_bytes(uint64_t ends, uint64_t inner) {
  if (inner == 0) return ends;
  uint64_t firsts = ends & ~inner;
  for (int i = 1; i < max_bytes; ++i) {
    ends = (ends & inner) >> 1;
    firsts |= ends & ~inner;
  }
  return firsts;
}

struct Contractions {
  uint64_t two, three;  // the apostrophes of those that have two and three bytes
};

// Finds the contractions that begin at `apostrophes`, one by one; those that may reach behind the
// block are left out.
template <bool any_case>
inline Contractions find_contractions(const uint8_t* block, uint64_t apostrophes) {
  Contractions found = {0, 0};
  constexpr auto* kContractionBytes = any_case ? any_case_contraction_bytes : contraction_bytes;
  for (uint64_t left = apostrophes & ~uint64_t{0} >> 2; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    const size_t num_bytes = kContractionBytes(block + i, block + kBlockBytes);
    if (num_bytes == 2) found.two |= uint64_t{1} << i;
    if (num_bytes == 3) found.three |= uint64_t{1} << i;
  }
  return found;
}

// Makes each contraction that begins at `apostrophes` a piece: there is no start inside it and one
// behind it. What follows an apostrophe in the last two bytes lies partly in the next block, so
// nothing behind it is sure then. `Instructions` has in addition:
//   // Does what find_contractions does, or does it faster.
//   template <bool any_case>
//   static Contractions contractions(const uint8_t* block, uint64_t apostrophes, const Masks&);
template <typename Instructions, bool any_case, typename Masks>
[[gnu::always_inline]] inline uint64_t cut_contractions(const uint8_t* block, uint64_t starts,
                                                        uint64_t apostrophes, const Masks& masks) {
  const auto [two, three] =
      Instructions::template contractions<any_case>(block, apostrophes, masks);
  const uint64_t unsure = (apostrophes & uint64_t{1} << 62) << 1;
  return (starts & ~((two | three) << 1 | unsure)) | two << 2 | three << 3;
}

// Starts in runs of numbers of which a piece has at most `max_numbers`.
template <int max_numbers>
[[gnu::always_inline]] inline uint64_t number_starts(uint64_t numbers, uint64_t inner) {
  static_assert(max_numbers == 1 || max_numbers == 3 || max_numbers == kAnyNumbers);
  if constexpr (max_numbers == 1) return numbers & ~inner;
  uint64_t starts = numbers & ~(numbers << 1);
  if constexpr (max_numbers == kAnyNumbers) return starts;
  if ((numbers & inner) != 0) {  // characters of several bytes are counted one by one
    int num_before = 0;
    for (uint64_t left = numbers & ~inner; left != 0; left &= left - 1) {
      const uint64_t bit = left & -left;
      num_before = (starts & bit) != 0 ? 0 : num_before + 1;
      if (num_before % 3 == 0) starts |= bit;
    }
    return starts;
  }
  const uint64_t last_of_three = numbers & numbers << 1 & numbers << 2;
  for (uint64_t next = starts; (next = next << 3 & numbers & last_of_three << 1) != 0;)
    starts |= next;
  return starts;
}

// Starts behind `\s*[\r\n]+`: behind the last end of a line in a run of white space.
// A run of blanks that reaches the end of the block is left out unless it ends there.
template <bool runs_end_in_block>
inline uint64_t starts_behind_lines(uint64_t white, uint64_t newlines) {
  const uint64_t blanks = white & ~newlines;
  uint64_t starts = (white & newlines) << 1 & blanks;
  // The addition carries from each start to the end of its run of blanks; another end of a line
  // there takes the start away.
  const uint64_t carried = blanks + starts;
  const bool reaches_end = carried < starts;
  if ((carried & ~blanks & newlines) == 0 && (runs_end_in_block || !reaches_end)) return starts;
  for (uint64_t left = starts; left != 0; left &= left - 1) {
    const uint64_t behind = ~blanks & ~((left & -left) - 1);
    const bool is_sure = behind == 0 ? runs_end_in_block : (behind & -behind & newlines) == 0;
    if (!is_sure) starts &= ~(left & -left);
  }
  return starts;
}

// All starts in white space by the alternatives of lines_end (white_space.h), where `taken` is what
// belongs to a piece before it. The text of the pattern ends before `stops`.
template <bool runs_end_in_block>
[[gnu::always_inline]] inline uint64_t line_starts(uint64_t white, uint64_t newlines,
                                                   uint64_t taken, uint64_t inner,
                                                   uint64_t stops = 0) {
  white &= ~taken;
  newlines &= ~taken;
  return (white & ~(white << 1)) | starts_behind_lines<runs_end_in_block>(white, newlines) |
         first_bytes(white & ~followed_by(white | stops) & ~newlines, inner);
}

}  // namespace
}  // namespace weft
