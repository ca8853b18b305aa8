// Splits 64 bytes at a time: bit i of each mask is about byte i of the block, and the starts of
// pieces come out of shifts and ANDs over the classes of all 64 bytes at once.
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

#include "tokenizer/split/char_at.h"
#include "tokenizer/split/split_scalar.h"

namespace weft {
namespace {

constexpr size_t kBlockBytes = 64;

struct BlockMasks {
  uint64_t letters, numbers, white_space;  // only those in ASCII until paint() has run
  uint64_t spaces, apostrophes;            // U+0020 and U+0027
  uint64_t non_ascii;
};

// Puts the class of each character above ASCII on all its bytes; bytes in `inner` are not the first
// of their character. The text ends at `end`, in this block or later.
inline void paint_non_ascii(const uint8_t* block, const uint8_t* end, BlockMasks& masks,
                            uint64_t& inner) {
  for (uint64_t left = masks.non_ascii; left != 0;) {
    const int i = std::countr_zero(left);
    const Char c = non_ascii_char_at(block + i, end);
    const uint64_t bytes = ((uint64_t{1} << c.num_bytes) - 1) << i;
    const auto if_class = [&](CharClass wanted) { return c.char_class == wanted ? bytes : 0; };
    masks.letters |= if_class(CharClass::kLetter);
    masks.numbers |= if_class(CharClass::kNumber);
    masks.white_space |= if_class(CharClass::kSpace);
    inner |= bytes & (bytes - 1);
    left &= ~bytes;
  }
}

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

// Finds all piece starts in a block whose first byte is one. `block` may be a copy of what stands
// at `text_block`, where the text goes on up to `end`. It is inlined so that the constants of
// `Instructions` stay in registers from block to block.
template <typename Instructions>
[[gnu::always_inline]] inline uint64_t piece_starts(const uint8_t* block, const uint8_t* text_block,
                                                    const uint8_t* end) {
  auto masks = Instructions::classify(block);
  uint64_t inner = 0;
  if (masks.non_ascii != 0) Instructions::paint(text_block, end, masks, inner);
  return Instructions::cut(block, starts_by_class(masks, inner), masks);
}

// Splits the last, partial block of a text. Its pieces are those of the text followed by white
// space, where the white space at the end joins that behind it.
template <typename Instructions>
size_t split_last_block(const uint8_t* p, const uint8_t* end, size_t position, size_t* ends) {
  const auto num_bytes = static_cast<size_t>(end - p);
  alignas(kBlockBytes) uint8_t block[kBlockBytes];
  std::memset(block, '\n', sizeof(block));
  std::memcpy(block, p, num_bytes);
  const uint64_t starts = piece_starts<Instructions>(block, p, end);
  const uint64_t inside = (uint64_t{1} << num_bytes) - 1;
  const size_t num_pieces =
      Instructions::write_positions(starts & inside & ~uint64_t{1}, position, ends);
  ends[num_pieces] = position + num_bytes;
  return num_pieces + 1;
}

// `Instructions` has these functions:
//   // Makes BlockMasks, or a struct with more.
//   static Masks classify(const uint8_t* block);
//   // Do what paint_non_ascii and cut_contractions do, or do it faster.
//   static void paint(const uint8_t* text_block, const uint8_t* end, Masks& masks,
//                     uint64_t& inner);
//   static uint64_t cut(const uint8_t* block, uint64_t starts, const Masks& masks);
//   // Writes position + i for each bit i and returns their number; touches up to kBlockBytes places.
//   static size_t write_positions(uint64_t bits, size_t position, size_t* out);
template <typename Instructions>
size_t split_blocks(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = data + text.size();
  const uint8_t* p = data + begin;
  size_t num_pieces = 0;
  while (num_pieces + kBlockBytes <= max_pieces && p < end) {
    const auto position = static_cast<size_t>(p - data);
    if (static_cast<size_t>(end - p) < kBlockBytes) {
      return num_pieces + split_last_block<Instructions>(p, end, position, ends + num_pieces);
    }
    const uint64_t starts = piece_starts<Instructions>(p, p, end) & ~uint64_t{1};
    if (starts == 0) {  // a piece longer than a block, or nearly
      p = piece_end(p, end);
      ends[num_pieces++] = static_cast<size_t>(p - data);
      continue;
    }
    num_pieces += Instructions::write_positions(starts, position, ends + num_pieces);
    p += 63 - std::countl_zero(starts);
  }
  return num_pieces;
}

}  // namespace
}  // namespace weft
