// Tables of one pattern for its splitters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tokenizer/unicode/char_classes.h"

namespace weft {

// The set of a lead byte whose characters are not of one class.
inline constexpr ClassSet kMixedClasses = 0xFF;

// A set of ASCII bytes, in the form that two look-ups of half bytes test: bit h of number l stands
// for the byte 16 * h + l.
struct AsciiSet {
  alignas(16) std::array<uint8_t, 16> rows;
};

struct SplitTables {
  // `groups` are the sets of classes that the pattern tells apart.
  SplitTables(const CharClasses& classes_of_pattern, std::span<const ClassSet> groups);

  const CharClasses& classes;
  // For the first byte of a character of two or three bytes, less 0xC0: the classes of all
  // characters that begin with it (Cyrillic, Han, Hangul, ...), or kMixedClasses if the pattern
  // tells them apart.
  alignas(64) std::array<ClassSet, 64> classes_of_lead;
  AsciiSet ascii_punctuation, ascii_symbols;
};

// Does what SplitPattern::split says.
using SplitBatch = size_t (*)(const SplitTables& tables, std::string_view text, size_t begin,
                              size_t* ends, size_t max_pieces);

}  // namespace weft
