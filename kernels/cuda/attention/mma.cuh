// Warp-level building blocks of attention on the tensor cores of sm_80 and later: asynchronous
// copies of tiles into swizzled shared memory, ldmatrix, mma.sync m16n8k16 (bf16 in, fp32 out).
// Fragment layouts: PTX ISA, section "Matrix Fragments for mma.m16n8k16".
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/attention/params.h"

namespace weft::cuda::attention {

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

__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// c (16x8) += a (16x16) * b (16x8)
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t pack(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// The instruction is volatile, so that the compiler does not move it across the waits for the
// asynchronous products that it overlaps with.
__device__ inline float fast_exp2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns the scalar product of eight pairs.
__device__ inline float dot(const uint4& x, const uint4& y) {
  const auto* a = reinterpret_cast<const __nv_bfloat162*>(&x);
  const auto* b = reinterpret_cast<const __nv_bfloat162*>(&y);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 u = __bfloat1622float2(a[i]), v = __bfloat1622float2(b[i]);
    sum += u.x * v.x + u.y * v.y;
  }
  return sum;
}

// A tile in shared memory with rows of D bf16. The 16-byte chunks of a row are permuted by an XOR
// with bits of the row, so that the eight rows that one ldmatrix step reads lie in different banks.
// (At D = 96 two rows already span 8 chunks modulo 8.)
template <int D>
struct Tile {
  static constexpr int kRowBytes = D * 2;
  static constexpr int kChunks = D / 8;

  uint32_t base;

  __device__ static int swizzle(int row, int chunk) {
    return D == 96 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
  }
  __device__ uint32_t at(int row, int chunk) const {
    return base + row * kRowBytes + swizzle(row, chunk) * 16;
  }

  // Starts copying rows [0, kRows) of `src`; rows from `num_valid` on become zero. All kThreads
  // threads must call it.
  template <int kRows, int kThreads>
  __device__ void load(const __nv_bfloat16* src, int64_t row_stride, int num_valid) const {
    static_assert(kRows * kChunks % kThreads == 0);
#pragma unroll
    for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
      const int idx = i * kThreads + static_cast<int>(threadIdx.x);
      const int row = idx / kChunks, chunk = idx % kChunks;
      const bool valid = row < num_valid;
      copy_async(at(row, chunk), src + (valid ? row * row_stride + chunk * 8 : 0), valid);
    }
  }
};

// acc += A * B^T, where A is rows [a_row, a_row + 16 * kM) of tile a and B is rows [0, 8 * kN) of
// tile b. The sum runs over D.
template <int D, int kM, int kN>
__device__ inline void multiply_rows(float (&acc)[kM][kN][4], Tile<D> a, int a_row, Tile<D> b) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t a_frag[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      load_matrices(a_frag[m], a.at(a_row + m * 16 + (lane & 15), 2 * k + (lane >> 4)));
    }
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t b_frag[4];
      load_matrices(b_frag,
                    b.at(n * 8 + (lane & 7) + ((lane >> 4) << 3), 2 * k + ((lane >> 3) & 1)));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma(acc[m][n], a_frag[m], b_frag[0], b_frag[1]);
        mma(acc[m][n + 1], a_frag[m], b_frag[2], b_frag[3]);
      }
    }
  }
}

// acc += A * B, where A (16 * kM, 16 * kK) is in registers and B is rows [0, 16 * kK) of tile b.
// The sum runs over those rows.
template <int D, int kM, int kK>
__device__ inline void multiply_columns(float (&acc)[kM][D / 8][4], const uint32_t (&a)[kM][kK][4],
                                        Tile<D> b) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < kK; ++k) {
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      uint32_t b_frag[4];
      load_matrices_transposed(b_frag, b.at(k * 16 + (lane & 15), n + (lane >> 4)));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma(acc[m][n], a[m][k], b_frag[0], b_frag[1]);
        mma(acc[m][n + 1], a[m][k], b_frag[2], b_frag[3]);
      }
    }
  }
}

// Rounds accumulators (16 * kM, 8 * kN) to bf16, as the left operand of the next product.
template <int kM, int kN>
__device__ inline void round_to_operand(uint32_t (&a)[kM][kN / 2][4], const float (&c)[kM][kN][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) {
      a[m][k][0] = pack(c[m][2 * k][0], c[m][2 * k][1]);
      a[m][k][1] = pack(c[m][2 * k][2], c[m][2 * k][3]);
      a[m][k][2] = pack(c[m][2 * k + 1][0], c[m][2 * k + 1][1]);
      a[m][k][3] = pack(c[m][2 * k + 1][2], c[m][2 * k + 1][3]);
    }
  }
}

// Writes a warp's accumulators (16 * kM rows from `row` on) to global memory as bf16, through the
// warp's own rows of `tile`, so that whole rows leave in 16-byte pieces. No other warp may use
// those rows meanwhile; `dst` is the tile's row 0.
template <int D, int kM>
__device__ inline void store_rows(const float (&acc)[kM][D / 8][4], const float (&row_scale)[kM][2],
                                  Tile<D> tile, int row, __nv_bfloat16* dst, int64_t row_stride,
                                  int num_valid) {
  const int lane = threadIdx.x & 31;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float s = row_scale[m][half];
        const uint32_t value = pack(acc[m][n][2 * half] * s, acc[m][n][2 * half + 1] * s);
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
    if (r < num_valid) *reinterpret_cast<uint4*>(dst + r * row_stride + chunk * 8) = value;
  }
}

// --- dropout --- A random block decides on four neighbouring keys, which lie in different lanes.
// So every lane draws whole blocks and turns them into bits, and the lanes exchange the bits. This
// takes one block per four elements and one register per eight.

// Several blocks are drawn at a time, because one block is a chain of ten dependent rounds.
constexpr int kDropoutUnroll = 2;

// Bit i of the result tells whether element + i is kept. Where T or the first element is odd, four
// elements may lie in two blocks.
__device__ inline uint32_t kept_bits(const DropoutArgs& dropout, uint64_t element) {
  const auto of_block = [&](uint64_t block_idx) {
    const PhiloxBlock block = philox(dropout.seed, dropout.stream, block_idx);
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= block.word[i] >= dropout.threshold ? 1U << i : 0U;
    return bits;
  };
  const uint32_t offset = static_cast<uint32_t>(element) & 3;
  uint32_t bits = of_block(element >> 2);
  if (offset != 0) bits = (bits | of_block((element >> 2) + 1) << 4) >> offset & 15;
  return bits;
}

// Draws the bits of a warp's tile of 16 queries by 8 * kN keys: bit 4 * (n % 8) + i of kept[n /
// 8][half] is for accumulator [n][2 * half + i]. `element` is the index of the tile's first
// element.
template <int kN>
__device__ inline void kept_in_rows(uint32_t (&kept)[(kN + 7) / 8][2], const DropoutArgs& dropout,
                                    uint64_t element, int T) {
  const int lane = threadIdx.x & 31, odd = lane & 1;
  const uint64_t mine =
      element + static_cast<uint64_t>(T) * (odd * 8 + (lane >> 2)) + (lane & 2) * 2;
#pragma unroll
  for (int part = 0; part < (kN + 7) / 8; ++part) {
    uint32_t bits = 0;
#pragma unroll kDropoutUnroll
    for (int n = 0; n < (kN < 8 ? kN : 8); ++n) {
      bits |= kept_bits(dropout, mine + part * 64 + n * 8) << (4 * n);
    }
    const uint32_t others = __shfl_xor_sync(0xFFFFFFFFu, bits, 1);
    kept[part][0] = (odd == 0 ? bits : others) >> (2 * odd);
    kept[part][1] = (odd == 0 ? others : bits) >> (2 * odd);
  }
}

// Draws the bits of a warp's transposed tile of 16 keys by 64 queries: bit 4 * n of kept[i] is for
// accumulator [n][i].
template <int kN>
__device__ inline void kept_in_columns(uint32_t (&kept)[4], const DropoutArgs& dropout,
                                       uint64_t element, int T) {
  static_assert(kN <= 8);
  const int lane = threadIdx.x & 31, unit = lane >> 2 & 3;
  const uint64_t mine = element + static_cast<uint64_t>(T) * ((lane & 3) * 2 + unit % 2) +
                        unit / 2 * 8 + (lane >> 4) * 4;
  uint32_t bits = 0;
#pragma unroll 2
  for (int n = 0; n < kN; ++n)
    bits |= kept_bits(dropout, mine + static_cast<uint64_t>(T) * (n * 8)) << (4 * n);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    kept[i] = __shfl_sync(0xFFFFFFFFu, bits, (lane & ~12) | i << 2) >> unit;
}

__device__ inline float drop(float x, const DropoutArgs& dropout, uint32_t kept, int bit) {
  return (kept >> bit & 1) != 0 ? x * dropout.keep_scale : 0.0F;
}

// Applies dropout to a warp's tile of 16 queries by 8 * kN keys.
template <int kN>
__device__ inline void drop_rows(float (&p)[kN][4], const DropoutArgs& dropout,
                                 const uint32_t (&kept)[(kN + 7) / 8][2]) {
#pragma unroll
  for (int n = 0; n < kN; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      p[n][i] = drop(p[n][i], dropout, kept[n / 8][i / 2], 4 * (n % 8) + i % 2);
  }
}

// Applies it to kM such tiles below each other; `element` is the index of their first element.
template <int kM, int kN>
__device__ inline void drop_rows(float (&p)[kM][kN][4], const DropoutArgs& dropout,
                                 uint64_t element, int T) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    uint32_t kept[(kN + 7) / 8][2];
    kept_in_rows<kN>(kept, dropout, element + static_cast<uint64_t>(T) * (m * 16), T);
    drop_rows<kN>(p[m], dropout, kept);
  }
}

}  // namespace weft::cuda::attention
