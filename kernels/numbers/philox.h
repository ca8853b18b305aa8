// Philox4x32, the counter-based random generator behind initial weights (10 rounds) and dropout
// (7). [Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; constants from
// Random123]
//
// The generator has no state: the random number of element e is a pure function of (key, stream,
// e). So every topology, device and restart sees the same numbers, and backward recomputes the
// numbers that forward drew.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define WEFT_HOST_DEVICE __host__ __device__
#else
#define WEFT_HOST_DEVICE
#endif

namespace weft {

struct PhiloxBlock {
  uint32_t word[4];
};

// Multiplies to 64 bits. On the GPU it is one instruction; the compiler adds another to the shift
// that takes the high word of a plain product.
WEFT_HOST_DEVICE inline void multiply_wide(uint32_t& high, uint32_t& low, uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  asm("{ .reg .b64 t; mul.wide.u32 t, %2, %3; mov.b64 {%1, %0}, t; }"
      : "=r"(high), "=r"(low)
      : "r"(a), "r"(b));
#else
  const uint64_t product = static_cast<uint64_t>(a) * b;
  high = static_cast<uint32_t>(product >> 32);
  low = static_cast<uint32_t>(product);
#endif
}

// Returns the four random words of the 128-bit counter {counter, stream} under the 64-bit `key`. Of
// Philox4x32, 7 rounds are the fewest that pass all of BigCrush; 10 leave a margin [Salmon et al.
// 2011, table 2].
template <int kRounds = 10>
WEFT_HOST_DEVICE inline PhiloxBlock philox(uint64_t key, uint64_t stream, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    uint32_t high0, low0, high1, low1;
    multiply_wide(high0, low0, 0xD2511F53u, c0);
    multiply_wide(high1, low1, 0xCD9E8D57u, c2);
    c0 = high1 ^ c1 ^ k0;
    c2 = high0 ^ c3 ^ k1;
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Returns the random word of one element; four neighbouring elements share a block.
WEFT_HOST_DEVICE inline uint32_t philox_word(uint64_t key, uint64_t stream, uint64_t element) {
  return philox(key, stream, element >> 2).word[element & 3];
}

}  // namespace weft
