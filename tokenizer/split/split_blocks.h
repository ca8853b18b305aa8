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

#include "tokenizer/split/char_at.h"

namespace weft {
namespace {

constexpr size_t kBlockBytes = 64;

struct BlockMasks {
  uint64_t letters, numbers, white_space;  // only those in ASCII until paint() has run
  uint64_t spaces, apostrophes;            // U+0020 and U+0027, which patterns ask for
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

// Finds all piece starts in a block whose first byte is one. `block` may be a copy of what stands
// at `text_block`, where the text goes on up to `end`. It is inlined so that the constants of
// `Instructions` stay in registers from block to block.
template <typename Instructions, typename Pattern>
[[gnu::always_inline]] inline uint64_t piece_starts(const uint8_t* block, const uint8_t* text_block,
                                                    const uint8_t* end) {
  auto masks = Instructions::classify(block);
  uint64_t inner = 0;
  if (masks.non_ascii != 0) Instructions::paint(text_block, end, masks, inner);
  return Pattern::template starts<Instructions>(block, masks, inner);
}

// Splits the last, partial block of a text. Its pieces are those of the text followed by white
// space, where the white space at the end joins that behind it.
template <typename Instructions, typename Pattern>
size_t split_last_block(const uint8_t* p, const uint8_t* end, size_t position, size_t* ends) {
  const auto num_bytes = static_cast<size_t>(end - p);
  alignas(kBlockBytes) uint8_t block[kBlockBytes];
  std::memset(block, '\n', sizeof(block));
  std::memcpy(block, p, num_bytes);
  const uint64_t starts = piece_starts<Instructions, Pattern>(block, p, end);
  const uint64_t inside = (uint64_t{1} << num_bytes) - 1;
  const size_t num_pieces =
      Instructions::write_positions(starts & inside & ~uint64_t{1}, position, ends);
  ends[num_pieces] = position + num_bytes;
  return num_pieces + 1;
}

// `Instructions` has these functions, and those that the pattern asks for:
//   // Makes BlockMasks, or a struct with more.
//   static Masks classify(const uint8_t* block);
//   // Does what paint_non_ascii does, or does it faster.
//   static void paint(const uint8_t* text_block, const uint8_t* end, Masks& masks,
//                     uint64_t& inner);
//   // Writes position + i for each bit i and returns their number; touches up to kBlockBytes
//   places. static size_t write_positions(uint64_t bits, size_t position, size_t* out);
//
// `Pattern` has these:
//   // Finds the piece starts in a block whose first byte is one. Starts that depend on what
//   follows // the block are left out.
//   template <typename Instructions, typename Masks>
//   static uint64_t starts(const uint8_t* block, const Masks& masks, uint64_t inner);
//   // Returns the end of the piece that starts at `p` < `end`.
//   static const uint8_t* piece_end(const uint8_t* p, const uint8_t* end);
//
// The pieces of a text must start at the same places if line feeds follow it: the last, partial
// block is filled with them.
template <typename Instructions, typename Pattern>
size_t split_blocks(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = data + text.size();
  const uint8_t* p = data + begin;
  size_t num_pieces = 0;
  while (num_pieces + kBlockBytes <= max_pieces && p < end) {
    const auto position = static_cast<size_t>(p - data);
    if (static_cast<size_t>(end - p) < kBlockBytes) {
      return num_pieces +
             split_last_block<Instructions, Pattern>(p, end, position, ends + num_pieces);
    }
    const uint64_t starts = piece_starts<Instructions, Pattern>(p, p, end) & ~uint64_t{1};
    if (starts == 0) {  // a piece longer than a block, or nearly
      p = Pattern::piece_end(p, end);
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
