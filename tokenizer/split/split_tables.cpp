#include "tokenizer/split/split_tables.h"

#include <algorithm>

namespace weft {

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

}  // namespace weft
