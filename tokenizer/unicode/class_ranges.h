// What class_ranges.cpp holds: pinned data from which char_classes.cpp makes its tables.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

struct CodePointRange {
  uint32_t first, last;
};

// Where runs of code points of one class begin, in order: the first code point << 4 | CharClass.
extern const std::span<const uint32_t> kClassRuns;
// Letters and numbers of 15.1 and 16.0; no other code point has changed its class since 15.0.
extern const std::span<const CodePointRange> kAssignedAfter15;
// Numbers that 17.0 has in addition.
extern const std::span<const CodePointRange> kNumbersOf17;
// Punctuation that 8.0 lacks, and what only 8.0 counts as punctuation.
extern const std::span<const CodePointRange> kPunctuationAfter8;
extern const std::span<const CodePointRange> kPunctuationOf8;

}  // namespace weft
