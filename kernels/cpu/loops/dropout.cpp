#include "kernels/cpu/loops/dropout.h"

#include <algorithm>

#include "kernels/cpu/loops/simd.h"
#include "kernels/numbers/dropout.h"

namespace weft::cpu {

namespace {

constexpr int kLanes = 16;  // Philox blocks computed side by side
constexpr int kElements = kDropoutsPerBlock * kLanes;

// Blocks side by side: word i of block `lane` is word[i][lane].
struct Blocks {
  uint32_t word[4][kLanes];
};

// Computes the blocks from `counter` on, with the rounds of kernels/numbers/philox.h in all lanes
// side by side.
[[gnu::always_inline]] inline void compute_blocks(Blocks& blocks, uint64_t key, uint64_t stream,
                                                  uint64_t counter) {
  uint32_t *c0 = blocks.word[0], *c1 = blocks.word[1], *c2 = blocks.word[2], *c3 = blocks.word[3];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t block = counter + static_cast<uint64_t>(lane);
    c0[lane] = static_cast<uint32_t>(block);
    c1[lane] = static_cast<uint32_t>(block >> 32);
    c2[lane] = static_cast<uint32_t>(stream);
    c3[lane] = static_cast<uint32_t>(stream >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kDropoutRounds; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t p0 = 0xD2511F53ULL * c0[lane], p1 = 0xCD9E8D57ULL * c2[lane];
      c0[lane] = static_cast<uint32_t>(p1 >> 32) ^ c1[lane] ^ k0;
      c2[lane] = static_cast<uint32_t>(p0 >> 32) ^ c3[lane] ^ k1;
      c1[lane] = static_cast<uint32_t>(p1);
      c3[lane] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

// Computes the multipliers of kElements elements from block `counter` on.
WEFT_VECTOR_CLONES void multipliers_of_blocks(float* out, uint64_t key, uint64_t stream,
                                              uint64_t counter, uint32_t threshold, float scale) {
  Blocks blocks;
  compute_blocks(blocks, key, stream, counter);
  for (int lane = 0; lane < kLanes; ++lane) {
    const PhiloxBlock block = {
        {blocks.word[0][lane], blocks.word[1][lane], blocks.word[2][lane], blocks.word[3][lane]}};
    for (int i = 0; i < kDropoutsPerBlock; ++i) {
      out[kDropoutsPerBlock * lane + i] = dropout_number(block, i) < threshold ? 0.0F : scale;
    }
  }
}

// Draws the words of attention's mask whose first digit is block `counter`.
WEFT_VECTOR_CLONES void draw_words(uint32_t* words, uint64_t key, uint64_t stream, uint64_t counter,
                                   uint32_t threshold) {
  static_assert(kLanes == kDropoutDigits);
  Blocks blocks;
  compute_blocks(blocks, key, stream, counter);
  for (int i = 0; i < kMaskWordsPerDraw; ++i) {
    uint32_t kept = ~0U;
    for (int digit = kDropoutDigits - 1; digit >= 0; --digit)
      kept = dropout_digit(threshold, digit, kept, blocks.word[i][digit]);
    words[i] = kept;
  }
}

}  // namespace

void dropout_multipliers(float* out, const Dropout& dropout, int64_t first, int64_t n) {
  const uint32_t threshold = dropout_threshold(dropout.p);
  const float scale = dropout_scale(dropout.p);
  uint64_t element = dropout.first_element + static_cast<uint64_t>(first);
  for (int64_t i = 0; i < n;) {
    const auto skip = static_cast<int64_t>(element % kDropoutsPerBlock);
    float block[kElements];
    const bool whole = skip == 0 && n - i >= kElements;
    float* target = whole ? out + i : block;
    multipliers_of_blocks(target, dropout.seed, dropout.stream, element / kDropoutsPerBlock,
                          threshold, scale);
    const int64_t count = std::min<int64_t>(n - i, kElements - skip);
    if (!whole) std::copy_n(block + skip, count, out + i);
    i += count;
    element += static_cast<uint64_t>(count);
  }
}

void dropout_words(uint32_t* words, const Dropout& dropout, int64_t first_word, int64_t num_words) {
  const uint32_t threshold = dropout_threshold(dropout.p);
  const uint64_t first_draw = dropout.first_element / kMaskBitsPerDraw +
                              static_cast<uint64_t>(first_word / kMaskWordsPerDraw);
  for (int64_t i = 0; i < num_words / kMaskWordsPerDraw; ++i) {
    draw_words(words + kMaskWordsPerDraw * i, dropout.seed, dropout.stream,
               (first_draw + static_cast<uint64_t>(i)) * kDropoutDigits, threshold);
  }
}

}  // namespace weft::cpu
