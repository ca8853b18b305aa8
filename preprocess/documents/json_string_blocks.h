// find_string_end in blocks of 64 bytes, for any instructions that can classify such a block. To be
// included behind the target pragma of the file that uses it: everything here is a template over a
// type of that file, so no code for one processor meets that for another.
//
// A type Isa has
//   Block                                    64 bytes in registers
//   static Block load(position, num_bytes)   1 to 64 bytes, then zeros (control characters)
//   static uint64_t stops(block)             quotes, backslashes and control characters
//   static StringMasks masks(block)          one bit a byte, lowest first
//   static EscapeMasks escape_masks(block)
//   static uint64_t hex_digits(block)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "preprocess/documents/json_escape.h"

namespace weft {

struct StringMasks {
  uint64_t quotes, backslashes, controls;
};
struct EscapeMasks {
  uint64_t known;  // bytes that make an escape with a backslash before them, `u` included
  uint64_t u;
};

// The bytes that a backslash before them escapes. `carry`: the first byte is escaped by the block
// before; becomes the same for the next block.
template <typename Isa>
uint64_t find_escaped(uint64_t backslashes, uint64_t& carry) {
  const uint64_t candidates = backslashes << 1 | carry;
  uint64_t escaped = candidates;
  if ((backslashes & candidates) != 0) {
    // Backslashes beside each other: from the left, each that is not escaped escapes the next.
    escaped = carry;
    for (uint64_t rest = backslashes & ~carry; rest != 0;) {
      const uint64_t bit = rest & -rest;
      escaped |= bit << 1;
      rest &= ~(bit | bit << 1);
    }
  }
  carry = backslashes & ~escaped & uint64_t{1} << 63 ? 1 : 0;
  return escaped;
}

// From `position`, a backslash that is not escaped.
template <typename Isa>
StringEnd find_end_with_escapes(const char* begin, const char* position, const char* end) {
  uint64_t carry = 0;
  while (position != end) {
    const auto left = static_cast<size_t>(end - position);
    const size_t num_bytes = left < 64 ? left : 64;
    const typename Isa::Block block = Isa::load(position, num_bytes);
    const StringMasks masks = Isa::masks(block);
    const EscapeMasks escapes = Isa::escape_masks(block);
    const char* const resume = position - carry;
    const uint64_t escaped = find_escaped<Isa>(masks.backslashes, carry);
    const uint64_t quotes = masks.quotes & ~escaped;
    const uint64_t before_quote = (quotes & -quotes) - 1;  // all, if there is none
    const uint64_t wrong = masks.controls | (escaped & ~escapes.known);
    if ((wrong & before_quote) != 0) return finish_string_end(begin, resume, end, true);
    const uint64_t u = escaped & escapes.u & before_quote;
    if (u != 0) {
      const uint64_t hex = Isa::hex_digits(block);
      const uint64_t open = u & ~(hex >> 1 & hex >> 2 & hex >> 3 & hex >> 4);
      if (open != 0) {
        // Wrong, or its digits lie in the next block.
        const char* const digits = position + std::countr_zero(open) + 1;
        if (end - digits < 4 || !are_four_hex_digits(digits))
          return finish_string_end(begin, resume, end, true);
      }
    }
    if (quotes != 0) return {position + std::countr_zero(quotes), nullptr, true};
    position += num_bytes;
  }
  return finish_string_end(begin, position - carry, end, true);
}

template <typename Isa>
StringEnd find_string_end_in_blocks(const char* begin, const char* end) {
  const char* position = begin;
  while (position != end) {
    const auto left = static_cast<size_t>(end - position);
    const size_t num_bytes = left < 64 ? left : 64;
    const uint64_t stops = Isa::stops(Isa::load(position, num_bytes));
    if (stops == 0) {
      position += num_bytes;
      continue;
    }
    position += std::countr_zero(stops);
    if (position == end) break;
    if (*position == '"') return {position, nullptr, false};
    if (*position == '\\') return find_end_with_escapes<Isa>(begin, position, end);
    break;
  }
  return finish_string_end(begin, position, end, false);
}

}  // namespace weft
