// Splits 64 bytes at a time, by any pattern: bit i of each mask is about byte i of the block, and
// the starts of pieces come out of shifts and ANDs over the classes of all 64 bytes at once.
//
// Each block begins where a piece is known to start, so nothing is carried from block to block: the
// last start that a block is sure of becomes the next block. About 7 % of the bytes are seen twice.
//
// Included by one .cpp per instruction set, after its `#pragma GCC target`: what is defined here is
// compiled anew for each, hence the unnamed namespace.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tokenizer/pieces/pattern_text.h"
#include "tokenizer/split/split_tables.h"

namespace weft {
namespace {

constexpr size_t kBlockBytes = 64;

// Masks that a pattern does not ask for cost nothing: the compiler leaves them out.
struct BlockMasks {
  uint64_t letters = 0, upper = 0, caseless = 0;  // letters: these two, and those in lower case
  uint64_t marks = 0, numbers = 0, white_space = 0, punctuation = 0, symbols = 0;
  // U+0020, U+0027, U+000A and U+000D, U+002F
  uint64_t spaces = 0, apostrophes = 0, newlines = 0, slashes = 0;
  uint64_t non_ascii = 0, leads = 0;  // leads: from 0xC0, so that a character may begin there
  uint64_t falcon_numbers = 0;        // the bytes kFalconNumbers
};

// Puts the class of each character that begins at `leads` on all its bytes; bytes in `inner` are
// not the first of their character. The text ends at `end`, in this block or later. It is inlined
// so that the compiler sees which masks nobody asks for.
[[gnu::always_inline]] inline void paint_non_ascii(const CharClasses& classes, const uint8_t* block,
                                                   const uint8_t* end, uint64_t leads,
                                                   BlockMasks& masks, uint64_t& inner) {
  for (uint64_t left = leads; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    const uint32_t c = non_ascii_code_point_at(block + i, end).value;
    if (c == kNotACodePoint) continue;
    // The first byte of a character begins with as many ones as the character has bytes.
    const uint64_t bytes = ((uint64_t{1} << std::countl_one(block[i])) - 1) << i;
    const ClassSet set = set_of(classes.class_of(c));
    const auto if_in = [&](ClassSet wanted) { return (set & wanted) != 0 ? bytes : 0; };
    masks.letters |= if_in(kLetters);
    masks.upper |= if_in(set_of(CharClass::kUpper));
    masks.caseless |= if_in(set_of(CharClass::kCaseless));
    masks.marks |= if_in(kMarks);
    masks.numbers |= if_in(kNumbers);
    masks.white_space |= if_in(kWhiteSpace);
    masks.punctuation |= if_in(set_of(CharClass::kPunctuation));
    masks.symbols |= if_in(set_of(CharClass::kSymbol));
    inner |= bytes & (bytes - 1);
  }
}

// Continues each bit of `from` through the bits of `through` that follow it without a gap
// (MatchStar of Parabix, Cameron et al. 2014): the addition carries through each run.
inline uint64_t continued(uint64_t from, uint64_t through) {
  return ((((from & through) + through) ^ through) & through) | from;
}

// Finds all piece starts in a block whose first byte is one. `block` may be a copy of what stands
// at `text_block`, where the text goes on up to `end`. It is inlined so that the constants of
// `Instructions` stay in registers from block to block.
template <typename Instructions, typename Pattern, bool is_last>
[[gnu::always_inline]] inline uint64_t piece_starts(const SplitTables& tables, const uint8_t* block,
                                                    const uint8_t* text_block, const uint8_t* end) {
  auto masks = Instructions::template classify<Pattern>(tables, block);
  uint64_t inner = 0;
  if (masks.non_ascii != 0)
    Instructions::template paint<Pattern>(tables, text_block, end, masks, inner);
  return Pattern::template starts<Instructions, is_last>(block, masks, inner);
}

// Splits the last, partial block of a text, which is filled with tabs. A piece starts at `p`, in
// the first character of the block.
template <typename Instructions, typename Pattern>
size_t split_last_block(const SplitTables& tables, const PatternText& text,
                        const uint8_t* text_block, const uint8_t* p, size_t* ends) {
  const auto num_bytes = static_cast<size_t>(text.end - text_block);
  alignas(kBlockBytes) uint8_t block[kBlockBytes];
  std::memset(block, '\t', sizeof(block));
  std::memcpy(block, text_block, num_bytes);
  const uint64_t starts =
      piece_starts<Instructions, Pattern, true>(tables, block, text_block, text.end);
  size_t num_pieces = 0;
  if ((starts & 1) == 0) {
    while (p < text.end) {
      p = Pattern::kPieceEnd(text, p);
      ends[num_pieces++] = static_cast<size_t>(p - text.begin);
    }
    return num_pieces;
  }
  const uint64_t behind_p = ((uint64_t{1} << num_bytes) - 1) & ~uint64_t{1} << (p - text_block);
  num_pieces = Instructions::write_positions(starts & behind_p,
                                             static_cast<size_t>(text_block - text.begin), ends);
  ends[num_pieces] = static_cast<size_t>(text.end - text.begin);
  return num_pieces + 1;
}

// `Instructions` has these functions, and those that the pattern asks for:
//   // Makes BlockMasks, or a struct with more.
//   template <typename Pattern>
//   static Masks classify(const SplitTables& tables, const uint8_t* block);
//   // Does what paint_non_ascii does, or does it faster.
//   template <typename Pattern>
//   static void paint(const SplitTables& tables, const uint8_t* text_block, const uint8_t* end,
//                     Masks& masks, uint64_t& inner);
//   // Writes position + i for each bit i and returns their number; touches up to kBlockBytes
//   // places.
//   static size_t write_positions(uint64_t bits, size_t position, size_t* out);
//
// `Pattern` has these, and what BlockPattern has:
//   // The piece that starts at a place.
//   static constexpr PieceEnd kPieceEnd;
//   // Finds the piece starts in a block whose first character begins one, or goes on in one
//   // (kCutsCharacters). Starts that depend on what
//   // follows the block are left out. Without bit 0 the result is all that masks can tell, up to
//   // some place in the block. `is_last`: tabs follow the text, which count as its end.
//   template <typename Instructions, bool is_last, typename Masks>
//   static uint64_t starts(const uint8_t* block, const Masks& masks, uint64_t inner);
struct BlockPattern {
  static constexpr bool kAnyCase = false;             // contractions may be in capitals
  static constexpr bool kAsksForPunctuation = false;  // for its mask, or that of symbols
  static constexpr bool kCutsCharacters = false;      // pieces may start inside of characters
};

template <typename Instructions, typename Pattern>
size_t split_blocks(const SplitTables& tables, std::string_view text, size_t begin, size_t* ends,
                    size_t max_pieces) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = data + text.size();
  const uint8_t* p = data + begin;
  size_t num_pieces = 0;
  while (num_pieces + kBlockBytes <= max_pieces && p < end) {
    const uint8_t* const block =
        Pattern::kCutsCharacters ? PatternText{tables.classes, data, end}.char_begin(p) : p;
    if (static_cast<size_t>(end - block) < kBlockBytes) {
      return num_pieces + split_last_block<Instructions, Pattern>(
                              tables, {tables.classes, data, end}, block, p, ends + num_pieces);
    }
    const uint64_t starts = piece_starts<Instructions, Pattern, false>(tables, block, block, end) &
                            ~uint64_t{1} << (p - block);
    if (starts == 0) {  // a piece longer than a block, or nearly
      p = Pattern::kPieceEnd({tables.classes, data, end}, p);
      ends[num_pieces++] = static_cast<size_t>(p - data);
      continue;
    }
    num_pieces +=
        Instructions::write_positions(starts, static_cast<size_t>(block - data), ends + num_pieces);
    p = block + 63 - std::countl_zero(starts);
  }
  return num_pieces;
}

}  // namespace
}  // namespace weft
