// Tiles in shared memory: asynchronous copies to them, and results through them to memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/numbers.cuh"

namespace weft::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes from global to shared memory. Where !valid it writes zeros and reads nothing.
__device__ inline void copy_async(uint32_t dst, const void* src, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Stores 16 bytes at once where `valid`. (The compiler can make an assignment four stores.)
__device__ inline void store_16_bytes(void* dst, uint4 value, bool valid) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.b32 [%0], {%1,%2,%3,%4}; }" ::"l"(dst),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(static_cast<int>(valid))
      : "memory");
}

// A tile in shared memory with rows of D numbers. The 16-byte chunks of a row are permuted by an
// XOR with bits of the row, so that the eight rows that one ldmatrix step reads lie in different
// banks. (At D = 96 and 160 two rows already span 8 chunks modulo 8.)
template <int D>
struct Tile {
  static constexpr int kRowBytes = D * 2;
  static constexpr int kChunks = D / 8;

  uint32_t base;

  __device__ static int swizzle(int row, int chunk) {
    return D % 64 == 32 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
  }
  __device__ uint32_t at(int row, int chunk) const {
    return base + row * kRowBytes + swizzle(row, chunk) * 16;
  }

  // Starts copying rows [0, kRows) of `src`; rows from `num_valid` on, and of a padded tile the
  // columns from `head_size` on, become zero. All kThreads threads must call it.
  template <int kRows, int kThreads, bool kPadded, typename Element>
  __device__ void load(const Element* src, int64_t row_stride, int num_valid, int head_size) const {
    static_assert(kRows * kChunks % kThreads == 0 && sizeof(Element) == 2);
#pragma unroll
    for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
      const int idx = i * kThreads + static_cast<int>(threadIdx.x);
      const int row = idx / kChunks, chunk = idx % kChunks;
      const bool valid = row < num_valid && (!kPadded || chunk * 8 < head_size);
      copy_async(at(row, chunk), src + (valid ? row * row_stride + chunk * 8 : 0), valid);
    }
  }
};

// Writes a warp's accumulators (16 * kM rows from `row` on) to global memory, through the
// warp's own rows of `tile`, so that whole rows leave in 16-byte pieces. No other warp may use
// those rows meanwhile; `dst` is the tile's row 0.
template <bool kPadded, int D, int kM, typename Element>
__device__ inline void store_rows(const float (&acc)[kM][D / 8][4], const float (&row_scale)[kM][2],
                                  Tile<D> tile, int row, Element* dst, int64_t row_stride,
                                  int num_valid, int head_size) {
  const int lane = threadIdx.x & 31;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float s = row_scale[m][half];
        const uint32_t value = pack<Element>(acc[m][n][2 * half] * s, acc[m][n][2 * half + 1] * s);
        const int r = row + m * 16 + half * 8 + (lane >> 2);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(tile.at(r, n) + (lane & 3) * 4), "r"(value)
                     : "memory");
      }
    }
  }
  __syncwarp();
  constexpr int kChunks = Tile<D>::kChunks;
#pragma unroll
  for (int i = 0; i < 16 * kM * kChunks / 32; ++i) {
    const int idx = i * 32 + lane;
    const int r = row + idx / kChunks, chunk = idx % kChunks;
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(tile.at(r, chunk))
                 : "memory");
    const bool valid = r < num_valid && (!kPadded || chunk * 8 < head_size);
    store_16_bytes(dst + r * row_stride + chunk * 8, value, valid);
  }
}

}  // namespace weft::cuda
