// What nfc_data.cpp holds: pinned data of Unicode 9.0 for nfc.cpp. Hangul is not in it: its
// syllables are composed by arithmetic.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

struct CombiningClassRange {
  uint32_t first, last;
  uint8_t combining_class;  // Canonical_Combining_Class, which is not 0
};

struct Decomposition {
  uint32_t code_point, first, second;  // second is 0 where one character replaces another
};

// In order of code points; code points without a range have class 0.
extern const std::span<const CombiningClassRange> kCombiningClasses;
// Decompositions of one step, in order of code points: those that are undone by composition, and
// those that are not (singletons and the composition exclusions).
extern const std::span<const Decomposition> kComposedPairs;
extern const std::span<const Decomposition> kDecomposedOnly;

}  // namespace weft
