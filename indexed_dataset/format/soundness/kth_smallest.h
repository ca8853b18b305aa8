// Finds the k-th smallest of many numbers without holding them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// Returns the k-th smallest (from 0; k < count) of value_of(0) to value_of(count - 1), none of
// which is negative. Walks over them one to five times, by bins of their size, then of 16 bits at a
// time.
template <typename ValueOf>
int64_t kth_smallest(int64_t count, int64_t k, const ValueOf& value_of) {
  std::vector<int64_t> bins(65);
  // Returns the bin that has the k-th; `k` counts from its begin then.
  const auto find_bin = [&] {
    size_t bin = 0;
    while (k >= bins[bin]) k -= bins[bin++];
    return bin;
  };
  const auto unsigned_at = [&](int64_t i) { return static_cast<uint64_t>(value_of(i)); };
  for (int64_t i = 0; i < count; ++i) ++bins[static_cast<size_t>(std::bit_width(unsigned_at(i)))];
  const size_t num_bits = find_bin();
  if (num_bits == 0) return 0;
  uint64_t least = uint64_t{1} << (num_bits - 1);  // the k-th is this or more, by `shift` bits
  for (size_t shift = num_bits - 1; shift > 0;) {
    const size_t end = shift;
    shift -= std::min<size_t>(shift, 16);
    bins.assign(size_t{1} << (end - shift), 0);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t value = unsigned_at(i) - least;  // a smaller one becomes a very large one
      if (value >> end == 0) ++bins[value >> shift];
    }
    least += uint64_t{find_bin()} << shift;
  }
  return static_cast<int64_t>(least);
}

}  // namespace weft
