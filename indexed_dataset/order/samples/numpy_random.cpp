#include "indexed_dataset/order/samples/numpy_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "indexed_dataset/base/process/vector_clones.h"

namespace weft {
namespace {

// Swaps whose partners are drawn together. Two blocks of cache lines fit the first-level cache.
constexpr size_t kBlock = 128;
using Block = std::array<uint64_t, kBlock>;

constexpr uint64_t kMaxWord = std::numeric_limits<uint32_t>::max();

constexpr size_t kWords = Mt19937::kStateWords, kShift = 397;

inline uint32_t twist(uint32_t upper, uint32_t lower) {
  const uint32_t joined = (upper & 0x80000000U) | (lower & 0x7fffffffU);
  return (joined >> 1) ^ ((lower & 1U) * 0x9908b0dfU);
}

// Word i follows from the old words i and i + 1, and from word i + 397 around the ring: an old one
// in the first loop, and one that is 227 words back, and so new already, in the second.
WEFT_VECTOR_CLONES void step_state(uint32_t* state) {
  for (size_t i = 0; i < kWords - kShift; ++i)
    state[i] = state[i + kShift] ^ twist(state[i], state[i + 1]);
  for (size_t i = kWords - kShift; i < kWords - 1; ++i)
    state[i] = state[i + kShift - kWords] ^ twist(state[i], state[i + 1]);
  state[kWords - 1] = state[kShift - 1] ^ twist(state[kWords - 1], state[0]);
}

WEFT_VECTOR_CLONES void temper(const uint32_t* state, uint32_t* words) {
  for (size_t i = 0; i < kWords; ++i) {
    uint32_t word = state[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680U;
    word ^= (word << 15) & 0xefc60000U;
    words[i] = word ^ (word >> 18);
  }
}

}  // namespace

Mt19937::Mt19937(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kStateWords; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

void Mt19937::refill() {
  step_state(state_.data());
  temper(state_.data(), words_.data());
  num_used_ = 0;
}

uint64_t RandomState::bounded(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  uint64_t value;
  if (max <= kMaxWord) {
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

size_t RandomState::draw_of_one_mask(uint32_t last, std::span<uint64_t> partners) {
  const uint32_t mask = static_cast<uint32_t>(kMaxWord) >> std::countl_zero(last);
  const size_t wanted = std::min<size_t>(partners.size(), last - (mask >> 1));
  size_t count = 0;
  uint32_t bound = last;
  while (count < wanted) {
    // No more words than partners that are missing: each may be one, and none may be left over. A
    // refused word is overwritten, because a jump that depends on it would be mispredicted too
    // often.
    std::span<const uint32_t> words = engine_.ahead();
    words = words.first(std::min(words.size(), wanted - count));
    for (const uint32_t word : words) {
      const uint32_t value = word & mask;
      const uint32_t is_taken = value <= bound ? 1 : 0;
      partners[count] = value;
      count += is_taken;
      bound -= is_taken;
    }
    engine_.advance(words.size());
  }
  return wanted;
}

void RandomState::draw_partners(uint64_t last, std::span<uint64_t> partners) {
  while (!partners.empty()) {
    size_t count = 1;
    if (last > kMaxWord) {
      partners[0] = bounded(last);
    } else {
      count = draw_of_one_mask(static_cast<uint32_t>(last), partners);
    }
    last -= count;
    partners = partners.subspan(count);
  }
}

void RandomState::skip_shuffle(size_t num_values) {
  Block partners;
  for (size_t last = num_values > 0 ? num_values - 1 : 0; last > 0;) {
    const size_t count = std::min(last, kBlock);
    draw_partners(last, std::span(partners).first(count));
    last -= count;
  }
}

template <typename T>
void RandomState::shuffle_values(std::span<T> values) {
  // On large arrays every swap would wait for memory. So the partners of the next block are drawn
  // before this block is swapped, and one of them is fetched into the cache at each swap. The order
  // of draws and of swaps is unchanged.
  Block partners, next;
  size_t last = values.empty() ? 0 : values.size() - 1;
  size_t count = std::min(last, kBlock);
  draw_partners(last, std::span(partners).first(count));
  while (last > 0) {
    const size_t next_last = last - count, next_count = std::min(next_last, kBlock);
    draw_partners(next_last, std::span(next).first(next_count));
    for (size_t k = 0; k < count; ++k) {
      if (k < next_count) __builtin_prefetch(&values[next[k]], 1);
      std::swap(values[last - k], values[partners[k]]);
    }
    std::swap(partners, next);
    last = next_last;
    count = next_count;
  }
}

void RandomState::shuffle(std::span<int32_t> values) { shuffle_values(values); }
void RandomState::shuffle(std::span<uint32_t> values) { shuffle_values(values); }
void RandomState::shuffle(std::span<int64_t> values) { shuffle_values(values); }
void RandomState::shuffle(std::span<uint64_t> values) { shuffle_values(values); }

}  // namespace weft
