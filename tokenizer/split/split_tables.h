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

// For the first byte of a character of two or three bytes, less 0xC0: the classes of all characters
// that begin with it (Cyrillic, Han, Hangul, ...), or kMixedClasses if `groups`, the sets of
// classes that the pattern tells apart, tell them apart.
std::array<ClassSet, 64> classes_of_leads(const CharClasses& classes,
                                          std::span<const ClassSet> groups);

struct SplitTables {
  const CharClasses& classes;
  alignas(64) std::array<ClassSet, 64> classes_of_lead;
};

// Does what SplitPattern::split says.
using SplitBatch = size_t (*)(const SplitTables& tables, std::string_view text, size_t begin,
                              size_t* ends, size_t max_pieces);

}  // namespace weft
