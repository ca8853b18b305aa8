// Warp-level building blocks of attention on the tensor cores of sm_80 and later: asynchronous
// copies of tiles into swizzled shared memory, ldmatrix, mma.sync m16n8k16 (bf16 or fp16 in, fp32 out).
// Fragment layouts: PTX ISA, section "Matrix Fragments for mma.m16n8k16".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention/dropout.cuh"
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

// Element is __nv_bfloat16 or __half. Tiles and their copies move 16 bits of either.
template <typename Element>
constexpr bool kIsFp16 = std::is_same_v<Element, __half>;

// c (16x8) += a (16x16) * b (16x8)
template <typename Element>
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kIsFp16<Element>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Rounds two neighbours. What is too large for fp16 becomes infinite: probabilities never are, and gradients
// that are mean a loss scale that is too large, for which the step is skipped.
template <typename Element>
__device__ inline uint32_t pack(float low, float high) {
  uint32_t packed;
  if constexpr (kIsFp16<Element>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

__device__ inline float2 widen(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ inline float2 widen(__half2 pair) { return __half22float2(pair); }

// The instruction is volatile, so that the compiler does not move it across the waits for the
// asynchronous products that it overlaps with.
__device__ inline float fast_exp2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns the scalar product of eight pairs.
template <typename Element>
__device__ inline float dot(const uint4& x, const uint4& y) {
  using Pair = std::conditional_t<kIsFp16<Element>, __half2, __nv_bfloat162>;
  const auto* a = reinterpret_cast<const Pair*>(&x);
  const auto* b = reinterpret_cast<const Pair*>(&y);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 u = widen(a[i]), v = widen(b[i]);
    sum += u.x * v.x + u.y * v.y;
  }
  return sum;
}

// A tile in shared memory with rows of D numbers. The 16-byte chunks of a row are permuted by an XOR
// with bits of the row, so that the eight rows that one ldmatrix step reads lie in different banks.
// (At D = 96 and 160 two rows already span 8 chunks modulo 8.)
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

  // Starts copying rows [0, kRows) of `src`; rows from `num_valid` on, and of a padded tile the columns
  // from `head_size` on, become zero. All kThreads threads must call it.
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

// acc += A * B^T, where A is rows [a_row, a_row + 16 * kM) of tile a and B is rows [0, 8 * kN) of
// tile b. The sum runs over D.
template <typename Element, int D, int kM, int kN>
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
        mma<Element>(acc[m][n], a_frag[m], b_frag[0], b_frag[1]);
        mma<Element>(acc[m][n + 1], a_frag[m], b_frag[2], b_frag[3]);
      }
    }
  }
}

// acc += A * B, where A (16 * kM, 16 * kK) is in registers and B is rows [0, 16 * kK) of tile b.
// The sum runs over those rows.
template <typename Element, int D, int kM, int kK>
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
        mma<Element>(acc[m][n], a[m][k], b_frag[0], b_frag[1]);
        mma<Element>(acc[m][n + 1], a[m][k], b_frag[2], b_frag[3]);
      }
    }
  }
}

// Rounds accumulators (16 * kM, 8 * kN), as the left operand of the next product.
template <typename Element, int kM, int kN>
__device__ inline void round_to_operand(uint32_t (&a)[kM][kN / 2][4], const float (&c)[kM][kN][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) {
      a[m][k][0] = pack<Element>(c[m][2 * k][0], c[m][2 * k][1]);
      a[m][k][1] = pack<Element>(c[m][2 * k][2], c[m][2 * k][3]);
      a[m][k][2] = pack<Element>(c[m][2 * k + 1][0], c[m][2 * k + 1][1]);
      a[m][k][3] = pack<Element>(c[m][2 * k + 1][2], c[m][2 * k + 1][3]);
    }
  }
}

// Loads the first key that each of this lane's rows sees, of a warp's rows from `first_query` on.
template <int kM>
__device__ inline void load_first_keys(int (&first_keys)[kM][2], const Params& p, int b,
                                       int first_query) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + static_cast<int>(threadIdx.x & 31) / 4;
      first_keys[m][half] = first_key_of(p, b, first_query + row);
    }
  }
}
// Loads for each row of keys of this lane the end of its document: no query from there on sees the key.
template <int kM>
__device__ inline void load_ends_of_queries(int (&ends)[kM][2], const Params& p, int b,
                                            int first_key) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + static_cast<int>(threadIdx.x & 31) / 4;
      ends[m][half] = end_of_queries_of(p, b, first_key + row);
    }
  }
}

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
    if (valid) *reinterpret_cast<uint4*>(dst + r * row_stride + chunk * 8) = value;
  }
}

}  // namespace weft::cuda::attention
