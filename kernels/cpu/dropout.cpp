#include "kernels/cpu/dropout.h"

#include <algorithm>

#include "kernels/cpu/simd.h"
#include "kernels/dropout.h"

namespace weft::cpu {

namespace {

constexpr int kLanes = 16;  // Philox blocks computed side by side
constexpr int kElements = kDropoutsPerBlock * kLanes;

// Computes the multipliers of kElements elements from block `counter` on, with the rounds of
// kernels/philox.h in all lanes side by side.
WEFT_VECTOR_CLONES void multipliers_of_blocks(float* out, uint64_t key, uint64_t stream,
                                              uint64_t counter, uint32_t threshold, float scale) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
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
  for (int lane = 0; lane < kLanes; ++lane) {
    const PhiloxBlock block = {{c0[lane], c1[lane], c2[lane], c3[lane]}};
    for (int i = 0; i < kDropoutsPerBlock; ++i) {
      out[kDropoutsPerBlock * lane + i] = dropout_number(block, i) < threshold ? 0.0F : scale;
    }
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

}  // namespace weft::cpu
