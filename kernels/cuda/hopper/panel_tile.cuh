// Tiles that the tensor memory accelerator copies into swizzled shared memory, and that wgmma reads
// there. [PTX ISA, "Asynchronous Warpgroup Level Matrix Operations"]
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/shared_tile.cuh"
#include "kernels/cuda/hopper/tensor_map.h"

namespace weft::cuda {

// Columns lie in panels as wide as the swizzle: 64 columns (128 bytes), or 32 (64 bytes) where D is
// no multiple of 64.
template <int D>
struct Panel {
  static constexpr int kColumns = D % 64 == 0 ? 64 : 32;
  static constexpr int kCount = D / kColumns;
  static constexpr int kRowBytes = 2 * kColumns;
  static constexpr uint64_t kSwizzleCode = kColumns == 64 ? 1 : 2;
};

// Tiles need 1024-byte aligned shared memory, so a launch asks for that much more.
constexpr int kSharedAlignment = 1024;
__device__ inline uint32_t aligned_shared(const void* shared) {
  return (shared_address(shared) + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// kRows tokens of D values, panel after panel, each with rows of Panel<D>::kRowBytes. The base is
// 1024-byte aligned.
template <int D, int kRows>
struct PanelTile {
  using P = Panel<D>;
  static constexpr int kPanelBytes = kRows * P::kRowBytes;
  static constexpr int kBytes = kRows * D * 2;

  uint32_t base;

  // Starts copying tokens [token, token + kRows) of row `row`; tokens beyond the tensor's end
  // become zero.
  __device__ void load(const CUtensorMap& map, int row, int token, int b, uint32_t barrier) const {
#pragma unroll
    for (int panel = 0; panel < P::kCount; ++panel) {
#pragma unroll
      for (int r = 0; r < kRows; r += kBoxRows) {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
            "[%1, {%3, %4, %5, %6}], "
            "[%2];" ::"r"(base + panel * kPanelBytes + r * P::kRowBytes),
            "l"(&map), "r"(barrier), "r"(panel * P::kColumns), "r"(row), "r"(token + r), "r"(b)
            : "memory");
      }
    }
  }

  // Starts copying the tile (64 rows) to tokens [token, token + 64) of row `row`, as part of this
  // thread's group of stores. Nothing is written beyond the tensor's end.
  __device__ void store(const CUtensorMap& map, int row, int token, int b) const {
    static_assert(kRows == kBoxRows);
#pragma unroll
    for (int panel = 0; panel < P::kCount; ++panel) {
      asm volatile(
          "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
              "l"(&map),
          "r"(base + panel * kPanelBytes), "r"(panel * P::kColumns), "r"(row), "r"(token), "r"(b)
          : "memory");
    }
  }

  // Returns the address of eight numbers, of which chunk 0 holds the first.
  __device__ uint32_t at(int row, int chunk) const {
    constexpr int kChunks = P::kColumns / 8;  // in a panel's row
    const int mixed = chunk % kChunks ^ (kChunks == 8 ? row % 8 : row / 2 % 4);
    return base + chunk / kChunks * kPanelBytes + row * P::kRowBytes + mixed * 16;
  }

  // These return matrix descriptors. The low word holds the address and the leading stride (in 16
  // bytes), so that one addition of a constant moves on inside the tile; the high word is constant.
  // Shared addresses are below 2^18.
  __device__ static uint64_t descriptor(uint32_t low_word) {
    constexpr uint64_t kStrideBytes = 8 * P::kRowBytes;  // 8 rows to the next 8
    return (kStrideBytes >> 4) << 32 | P::kSwizzleCode << 62 | low_word;
  }
  // For a sum over D: columns [16 * k, 16 * k + 16) of all rows.
  __device__ uint64_t rows_operand(int k) const {
    const int column = k * 16;
    const int offset = column / P::kColumns * kPanelBytes + column % P::kColumns * 2;
    return descriptor((base >> 4 | 1U << 16) + static_cast<uint32_t>(offset >> 4));
  }
  // For a sum over rows: rows [16 * k, 16 * k + 16) of all columns.
  __device__ uint64_t columns_operand(int k) const {
    constexpr uint32_t kLeading = static_cast<uint32_t>(kPanelBytes >> 4) << 16;
    return descriptor((base >> 4 | kLeading) + static_cast<uint32_t>(k * 16 * P::kRowBytes >> 4));
  }
};

#endif  // sm_90a

}  // namespace weft::cuda
