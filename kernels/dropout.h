// Dropout's decisions, equal on every device and for every topology.
//
// Element e of a global tensor has a 16-bit number: half e % 8 of the Philox block e / 8, where half
// 2i is the low half of word i. The element is dropped when the number is below the threshold, the
// probability times 2^16, rounded. Kept elements are multiplied by the reciprocal of the probability
// that results, so the mean is exact. One block thus decides on eight elements; whole words cost
// attention more time than its products [tests/bench/results/2026-11-22-dropout-h200.md].
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace weft {

constexpr int kDropoutRounds = 7;
constexpr int kDropoutsPerBlock = 8;

// Returns the threshold of 0 <= p < 1. It is 0 only for p == 0: a small p drops one of 65,536.
WEFT_HOST_DEVICE inline uint32_t dropout_threshold(float p) {
  const auto rounded = static_cast<uint32_t>(static_cast<double>(p) * 65536.0 + 0.5);
  if (p > 0.0F && rounded == 0) return 1;
  return rounded > 65535 ? 65535 : rounded;
}

// Kept elements are multiplied by this factor.
WEFT_HOST_DEVICE inline float dropout_scale(float p) {
  return 65536.0F / static_cast<float>(65536 - dropout_threshold(p));
}

WEFT_HOST_DEVICE inline PhiloxBlock dropout_block(uint64_t seed, uint64_t stream, uint64_t block) {
  return philox<kDropoutRounds>(seed, stream, block);
}

// Returns number `i` of a block.
WEFT_HOST_DEVICE inline uint32_t dropout_number(const PhiloxBlock& block, int i) {
  const uint32_t word = block.word[i / 2];
  return i % 2 == 0 ? word & 0xffffu : word >> 16;
}

// Returns the number of one element.
WEFT_HOST_DEVICE inline uint32_t dropout_number_of(uint64_t seed, uint64_t stream,
                                                   uint64_t element) {
  const PhiloxBlock block = dropout_block(seed, stream, element / kDropoutsPerBlock);
  return dropout_number(block, static_cast<int>(element % kDropoutsPerBlock));
}

// --- attention's bits ---
// Forward stores a bit for each query and key that the causal mask lets it see (1: kept), and
// backward reads them. A word holds 32 keys of one query. Keys come in groups of 64; group g has
// the two rows of words of keys 64 g and 64 g + 32, for the queries from 64 g on, so about half of
// T * T bits are stored. Bits of keys after the query mean nothing.

// T, rounded up to whole groups.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_length(int64_t T) { return (T + 63) / 64 * 64; }

// Words of one head.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_words(int64_t T) {
  const int64_t groups = attention_mask_length(T) / 64;
  return 64 * groups * (groups + 1);
}

// The place of a query's word of keys 32 * key_word and up. The query is in group key_word / 2 or
// later.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_word(int64_t T, int64_t query, int64_t key_word) {
  const int64_t length = attention_mask_length(T), group = key_word / 2;
  return 2 * group * length - 64 * group * (group - 1) + key_word % 2 * (length - 64 * group) +
         query - 64 * group;
}

}  // namespace weft
