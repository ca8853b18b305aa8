#include "indexed_dataset/order/samples/mt19937.h"

#include "indexed_dataset/base/process/vector_clones.h"

namespace weft {
namespace {

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

}  // namespace weft
