// The scratch of flash attention's backward on CUDA, in plain C++: a dry run plans it without a
// GPU.
//
// It holds lse2 and delta, then counters and sums of dQ, to which blocks add in a fixed order, then
// partial sums of the gradient of a bias (kernels/cuda/attention/backward_workspace). Kernels for
// Hopper alone use the latter two; which kernels run is not asked here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/numbers/philox.h"
#include "kernels/numbers/tensor.h"

namespace weft {

// Flash attention on CUDA is for 16 bits, and for head sizes that are multiples of 8 up to the
// largest. For others, and in fp32, attention keeps scores of some queries and heads in memory
// there (kernels/unfused_attention.h), which is slower.
constexpr int64_t kMaxFlashHeadSize = 160;
constexpr bool has_flash_attention(int64_t D, DType x) {
  return x != DType::kFloat32 && D > 0 && D % 8 == 0 && D <= kMaxFlashHeadSize;
}

// Returns the columns of the tile that holds a head of size D (has_flash_attention).
constexpr int64_t flash_columns(int64_t D) {
  if (D == 64 || D == 128) return D;
  return D <= 96 ? 96 : 160;
}

// The rows of lse2 and delta of one (batch, head) are padded to padded_length(T). In the padding
// lse2 is +inf and delta 0, so that rows beyond T get probability 0. Hopper's kernels for tiles of
// 160 columns fill it up to the next multiple of 128 alone, and read no more.
constexpr int kRowPadding = 256;
WEFT_HOST_DEVICE constexpr int64_t padded_length(int64_t T) {
  return (T + kRowPadding - 1) / kRowPadding * kRowPadding;
}
constexpr int64_t row_values_bytes(int64_t B, int64_t T, int64_t H) {
  return 2 * B * H * padded_length(T) * 4;
}

constexpr int kSemaphoreQueries = 64;  // So many queries share a semaphore.
constexpr int kTileKeys = 128;         // A work tile has so many keys.

constexpr int64_t num_key_tiles(int64_t T) { return (T + kTileKeys - 1) / kTileKeys; }

// The tile scheduler's counter, semaphores and sums. A head has num_blocks blocks of
// kSemaphoreQueries queries.
struct SemaphoreLayout {
  int64_t columns;  // a head's tile; 0 where that is wider than 128 and its kernels add to no sums
  int num_slots, heads_together;
  int64_t num_blocks, num_counters;
  int64_t counter_bytes, sum_bytes;

  SemaphoreLayout(int64_t B, int64_t T, int64_t H, int64_t D)
      : columns(flash_columns(D) <= 128 ? flash_columns(D) : 0) {
    constexpr int64_t kL2ShareBytes = 15 << 20;
    constexpr int64_t kTilesInFlight = 320;  // twice the multiprocessors of the largest Hopper GPU
    const int64_t num_tiles = num_key_tiles(T);
    num_blocks = num_tiles * (kTileKeys / kSemaphoreQueries);
    const int64_t slot_bytes = num_blocks * kSemaphoreQueries * columns * 4;
    // L2 has to hold Q, K, V, dO and the sums of the heads that blocks are at.
    const int64_t head_bytes = 4 * num_tiles * kTileKeys * columns * 2 + slot_bytes;
    heads_together = static_cast<int>(
        std::clamp<int64_t>(kL2ShareBytes / std::max<int64_t>(head_bytes, 1), 1, 20));
    // With fewer slots a head waits for the one that had its slot.
    const int64_t wanted =
        kTilesInFlight / std::max<int64_t>(num_tiles, 1) + 2 + 2 * heads_together;
    num_slots = columns > 0 ? static_cast<int>(std::min(wanted, B * H)) : 0;
    num_counters = 1 + num_slots * num_blocks;
    counter_bytes = (num_counters * 4 + 255) / 256 * 256;
    sum_bytes = num_slots * slot_bytes;
  }
  int64_t num_bytes() const { return counter_bytes + sum_bytes; }
};

// Returns the bytes into which the layouts of all sequences of up to T tokens fit. A shorter one
// can take more than a longer one, because more heads of it are taken together, and get slots; the
// memory is planned for the longest.
inline int64_t semaphore_bytes(int64_t B, int64_t T, int64_t H, int64_t D) {
  int64_t num_bytes = SemaphoreLayout(B, T, H, D).num_bytes();
  for (int64_t shorter = kTileKeys; shorter < T; shorter += kTileKeys)
    num_bytes = std::max(num_bytes, SemaphoreLayout(B, shorter, H, D).num_bytes());
  return num_bytes;
}

// Returns the most that any version of the kernel leaves. With documents any work tile can be the
// last one for some queries, else the first tile's work tile is for all. With dropout each of the
// two warpgroups has sums of the values of its keys.
inline int64_t bias_sums_bytes(int64_t B, int64_t T, int64_t H, int64_t D) {
  return B * (1 + 2) * num_key_tiles(T) * H * SemaphoreLayout(B, T, H, D).columns * 4;
}

// Returns the bytes of all of it, which do not shrink where B, T or H grow.
inline int64_t flash_backward_bytes(int64_t B, int64_t T, int64_t H, int64_t D, bool sums_bias) {
  return row_values_bytes(B, T, H) + semaphore_bytes(B, T, H, D) +
         (sums_bias ? bias_sums_bytes(B, T, H, D) : 0);
}

}  // namespace weft
