// A set of numbers that is searched for in long arrays.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/parallel_for.h"

namespace weft {

// Thread-safe after construction. Memory: 8 bytes for each number, and a bit for each one between
// the least and the largest.
class NumberSet {
 public:
  // `numbers` are not negative, in any order; doubles count once.
  explicit NumberSet(std::vector<int64_t> numbers);

  bool contains(int64_t number) const {
    const uint64_t at = static_cast<uint64_t>(number) - least_;
    if (at > width_) return false;
    // Most numbers are not in the set: this table stays in the first cache.
    const uint64_t low = at % kFilterBits;
    if ((filter_[low / 64] >> low % 64 & 1) == 0) return false;
    return (bits_[at / 64] >> at % 64 & 1) != 0;
  }
  const std::vector<int64_t>& numbers() const { return numbers_; }  // ascending
  bool empty() const { return numbers_.empty(); }

  // Calls use(position, number), in order of positions, for all numbers of the set among
  // values[0 .. size), which several threads search.
  template <typename T, typename Use>
  void for_each_in(std::span<const T> values, int num_threads, const Use& use) const {
    constexpr int64_t kBlock = 1 << 20;
    const int64_t size = std::ssize(values), num_blocks = (size + kBlock - 1) / kBlock;
    std::vector<std::vector<int64_t>> found(static_cast<size_t>(num_blocks));
    if (empty()) return;
    parallel_for(num_blocks, num_threads, [&](int64_t block) {
      const int64_t end = std::min(size, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < end; ++i) {
        if (contains(static_cast<int64_t>(values[static_cast<size_t>(i)])))
          found[static_cast<size_t>(block)].push_back(i);
      }
    });
    for (const std::vector<int64_t>& of_block : found) {
      for (const int64_t i : of_block) use(i, static_cast<int64_t>(values[static_cast<size_t>(i)]));
    }
  }

 private:
  static constexpr size_t kFilterBits = 1 << 14;

  std::vector<int64_t> numbers_;
  uint64_t least_ = 0, width_ = 0;
  std::array<uint64_t, kFilterBits / 64> filter_{};
  std::vector<uint64_t> bits_;
};

inline NumberSet::NumberSet(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {
  if (numbers_.empty()) return;
  std::sort(numbers_.begin(), numbers_.end());
  numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
  least_ = static_cast<uint64_t>(numbers_.front());
  width_ = static_cast<uint64_t>(numbers_.back()) - least_;
  bits_.resize(width_ / 64 + 1);
  for (const int64_t number : numbers_) {
    const uint64_t at = static_cast<uint64_t>(number) - least_, low = at % kFilterBits;
    filter_[low / 64] |= uint64_t{1} << low % 64;
    bits_[at / 64] |= uint64_t{1} << at % 64;
  }
}

}  // namespace weft
