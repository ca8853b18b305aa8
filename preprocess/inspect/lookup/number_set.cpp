#include "preprocess/inspect/lookup/number_set.h"

#include <algorithm>
#include <utility>

namespace weft {

NumberSet::NumberSet(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {
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
