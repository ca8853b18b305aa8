// Binary search over numbers. std::ranges has it over std::views::iota, which clang 14 does not
// compile with GCC 12's library.
#pragma once

#include <cstdint>

namespace weft {

// Returns the first number of [begin, end) that `holds` does not hold for, else `end`; it holds for
// all numbers before, and for none behind.
template <typename Holds>
int64_t partition_point(int64_t begin, int64_t end, const Holds& holds) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (holds(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace weft
