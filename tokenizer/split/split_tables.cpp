#include "tokenizer/split/split_tables.h"

#include <algorithm>

namespace weft {
namespace {

std::array<ClassSet, 64> classes_of_leads(const CharClasses& classes,
                                          std::span<const ClassSet> groups) {
  std::array<ClassSet, 64> result{};
  std::array<bool, 64> seen{};
  for (uint32_t c = 0x80; c < 0x10000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const uint32_t lead = c < 0x800 ? c >> 6 : 0x20 | c >> 12;
    const ClassSet char_class = set_of(classes.class_of(c));
    ClassSet& known = result[lead];
    if (!seen[lead]) known = char_class;
    seen[lead] = true;
    const bool is_like_those_before = std::all_of(
        groups.begin(), groups.end(),
        [&](ClassSet group) { return ((group & known) != 0) == ((group & char_class) != 0); });
    if (!is_like_those_before) known = kMixedClasses;
  }
  return result;
}

AsciiSet ascii_set_of(const CharClasses& classes, ClassSet wanted) {
  AsciiSet set{};
  for (size_t c = 0; c < 128; ++c) {
    if ((classes.set_of_ascii[c] & wanted) != 0)
      set.rows[c % 16] = static_cast<uint8_t>(set.rows[c % 16] | 1 << c / 16);
  }
  return set;
}

}  // namespace

SplitTables::SplitTables(const CharClasses& classes_of_pattern, std::span<const ClassSet> groups)
    : classes(classes_of_pattern),
      classes_of_lead(classes_of_leads(classes, groups)),
      ascii_punctuation(ascii_set_of(classes, set_of(CharClass::kPunctuation))),
      ascii_symbols(ascii_set_of(classes, set_of(CharClass::kSymbol))) {}

}  // namespace weft
