#include "indexed_dataset/samples/numpy_random.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft {

uint64_t RandomState::bounded(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  uint64_t value;
  if (max <= 0xffffffff) {
    do {
      value = engine_() & mask;
    } while (value > max);
  } else {
    do {
      const uint64_t high = engine_();
      value = (high << 32 | engine_()) & mask;
    } while (value > max);
  }
  return value;
}

template <typename T>
void RandomState::shuffle_values(std::span<T> values) {
  // The partners of a whole block are drawn first and fetched into the cache, because on large
  // arrays every swap would wait for memory otherwise. The order of draws and of swaps is
  // unchanged.
  constexpr size_t kBlock = 64;
  uint64_t partners[kBlock];
  for (size_t last = values.empty() ? 0 : values.size() - 1; last > 0;) {
    const size_t count = std::min(last, kBlock);
    for (size_t k = 0; k < count; ++k) {
      partners[k] = bounded(last - k);
      __builtin_prefetch(&values[partners[k]], 1);
    }
    for (size_t k = 0; k < count; ++k) std::swap(values[last - k], values[partners[k]]);
    last -= count;
  }
}

void RandomState::shuffle(std::span<int32_t> values) { shuffle_values(values); }
void RandomState::shuffle(std::span<uint32_t> values) { shuffle_values(values); }
void RandomState::shuffle(std::span<int64_t> values) { shuffle_values(values); }

}  // namespace weft
