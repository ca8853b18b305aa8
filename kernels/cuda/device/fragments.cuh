// Products of a warp on the tensor cores of sm_80 and later: ldmatrix, mma.sync m16n8k16 (bf16 or
// fp16 in, fp32 out). Fragment layouts: PTX ISA, section "Matrix Fragments for mma.m16n8k16".
#pragma once

#include "kernels/cuda/device/shared_tile.cuh"

namespace weft::cuda {

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

}  // namespace weft::cuda
