// Dropout's decisions, equal on every device and for every topology.
//
// Every element of a global tensor has a 16-bit number, and it is dropped when the number is below
// the threshold, the probability times 2^16, rounded. Kept elements are multiplied by the
// reciprocal of the probability that results, so the mean is exact. 128 neighbouring elements take
// the 16 blocks of Philox4x32-7 from block e / 8 on, in one of two orders:
//
//   residual stream  The number of element e is half e % 8 of block e / 8, where half 2i is the low
//                    half of word i. A thread draws what its 16-byte vector needs.
//   attention        The mask is stored as words of 32 bits, so the numbers lie across words. Digit
//                    d (0 is the most significant) of the number of bit e is bit e % 32 of word
//                    e / 32 % 4 of block e / 128 * 16 + d. 32 decisions are then one AND or OR a
//                    digit (dropout_digit), and digits below the threshold's last 1 need not be
//                    drawn: p = 0.1 takes 15 of 16, and p = 0.5 takes 1.
#pragma once

#include <cstdint>

#include "kernels/numbers/philox.h"

namespace weft {

// Bernoulli dropout by counter. Whether element e of a tensor is dropped is a function of seed,
// stream and first_element + e, its index in the *global* tensor. Kept elements are scaled so that
// the mean stays. The probability is p to 1/131,072; p == 0 costs nothing.
struct Dropout {
  float p = 0.0F;
  uint64_t seed = 0;
  uint64_t stream = 0;         // layer, operation and step, packed by the caller
  uint64_t first_element = 0;  // index of this tensor's first element in the global one
};

constexpr int kDropoutRounds = 7;
constexpr int kDropoutsPerBlock = 8;
constexpr int kDropoutDigits = 16;

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

// --- the residual stream ---

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

// --- attention's mask ---
//
// Forward draws and stores a bit for each query and key that the causal mask lets it see (1: kept),
// and backward reads them. The bits form tiles of 64 queries by 64 keys; those of a head are stored
// row by row up to the diagonal, so about half of T * T bits are. A tile has 128 words. A word
// holds what one lane of a warp needs of 16 queries by 64 keys where the tensor cores compute the
// scores: of queries r and r + 8, keys 8 n + 2 c and the next one for n = 0..7. It is word 4 r + c
// of the 32 words of these queries, and its bit 16 i + 2 n + j is for query r + 8 j and key 8 n + 2
// c + i. Bits of keys after the query mean nothing.
//
// The mask's bits are numbered as they are stored in the tensor of all samples and of all heads of
// the model, (samples, heads, words).

constexpr int kMaskTile = 64;        // queries, and keys
constexpr int kMaskTileWords = 128;  // in a tile
constexpr int kMaskBitsPerDraw = 128;
constexpr int kMaskWordsPerDraw = 4;

// T in tiles, rounded up.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_tiles(int64_t T) {
  return (T + kMaskTile - 1) / kMaskTile;
}

// Words of one head.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_words(int64_t T) {
  const int64_t tiles = attention_mask_tiles(T);
  return kMaskTileWords * (tiles * (tiles + 1) / 2);
}

// The first word, in its head, of the tile of these queries and keys. 0 <= key_tile <= query_tile.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_tile(int64_t query_tile, int64_t key_tile) {
  return kMaskTileWords * (query_tile * (query_tile + 1) / 2 + key_tile);
}

// The word of a query and key in their head, and the bit in the word. The key may be after the
// query, but not in a later tile.
WEFT_HOST_DEVICE constexpr int64_t attention_mask_word(int64_t query, int64_t key) {
  return attention_mask_tile(query / kMaskTile, key / kMaskTile) + query % kMaskTile / 16 * 32 +
         query % 8 * 4 + key % 8 / 2;
}
WEFT_HOST_DEVICE constexpr int attention_mask_bit(int64_t query, int64_t key) {
  return static_cast<int>(key % 2 * 16 + key % kMaskTile / 8 * 2 + query / 8 % 2);
}

// Returns the number of leading digits of the threshold that decide; the others are 0.
WEFT_HOST_DEVICE inline int dropout_digits(uint32_t threshold) {
  int digits = kDropoutDigits;
  while (digits > 0 && (threshold >> (kDropoutDigits - digits) & 1) == 0) --digits;
  return digits;
}

// Returns which of 32 numbers are not below the threshold, as far as the digits from `digit` on
// tell: `kept` is what the less significant ones tell (all bits before the first), and `random`
// holds the numbers' digits `digit`.
WEFT_HOST_DEVICE inline uint32_t dropout_digit(uint32_t threshold, int digit, uint32_t kept,
                                               uint32_t random) {
  const uint32_t zero = (threshold >> (kDropoutDigits - 1 - digit) & 1) - 1;  // all bits, or none
  return (kept & random) | (zero & (kept | random));
}

}  // namespace weft
