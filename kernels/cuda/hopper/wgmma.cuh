// Products of a warpgroup on Hopper (sm_90a): wgmma with fp32 sums. [PTX ISA, "Asynchronous
// Warpgroup Level Matrix Operations"]
//
// The kernels rely on a warpgroup's product needing all four warps: it begins when the last of them
// has started it, and when it is complete for one, it is complete for all. PTX does not promise
// that (its `.sync` holds for a warp alone), but CUTLASS relies on it, too: in a cluster one thread
// releases a stage for its warpgroup (PipelineTmaAsync). Two things follow:
// - A warp that has waited for a product knows that the others have started it. So they are done
//   with what they waited for and read before, and shared memory that it lay in may be written
//   again.
// - One warp may release a stage of shared memory for its warpgroup.
//
// The device code exists only where the compiler targets sm_90a; has_hopper_code() (hopper_code.h)
// tests that at run time.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/fragments.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/hopper/panel_tile.cuh"

namespace weft::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving reads of sums above the wait for them.
template <int kN>
__device__ inline void pin(float (&acc)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(acc[n][i])::"memory");
  }
}

// A warp's 16 rows of a tile, from row `row` on, as left operands of products over its columns.
template <int D>
struct RegisterTile {
  uint32_t words[D / 16][4];

  __device__ RegisterTile(PanelTile<D, 64> tile, int row) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      load_matrices(words[k], tile.at(row + (lane & 15), 2 * k + (lane >> 4)));
    }
  }
};

// clang-format off
#define WEFT_TILE(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define WEFT_TILES4(d, n) WEFT_TILE(d, n), WEFT_TILE(d, n + 1), WEFT_TILE(d, n + 2), WEFT_TILE(d, n + 3)
#define WEFT_SUMS64 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define WEFT_TILES64(d) WEFT_TILES4(d, 0), WEFT_TILES4(d, 4)
#define WEFT_SUMS96 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}"
#define WEFT_TILES96(d) WEFT_TILES4(d, 0), WEFT_TILES4(d, 4), WEFT_TILES4(d, 8)
#define WEFT_SUMS128 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define WEFT_TILES128(d) WEFT_TILES4(d, 0), WEFT_TILES4(d, 4), WEFT_TILES4(d, 8), WEFT_TILES4(d, 12)
#define WEFT_SUMS160 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79}"
#define WEFT_TILES160(d) WEFT_TILES128(d), WEFT_TILES4(d, 16)

// `type` is bf16 or f16; %a and %b are the operands' descriptors, %p is whether to add to the sums.
#define WEFT_MULTIPLY_SHARED(type, n, sums, tiles, a_idx, b_idx, p_idx, transposed) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" p_idx ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " " sums \
               ", %" a_idx ", %" b_idx ", p, 1, 1, " transposed "; }" : tiles : "l"(a), "l"(b), "r"(accumulate))
#define WEFT_MULTIPLY_ROWS(type, n, sums, tiles, a_idxs, b_idx, p_idx) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" p_idx ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " " sums \
               ", {" a_idxs "}, %" b_idx ", p, 1, 1, 0; }" : tiles : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
#define WEFT_MULTIPLY_COLUMNS(type, n, sums, tiles, a_idxs, b_idx) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " " sums \
               ", {" a_idxs "}, %" b_idx ", p, 1, 1, 1; }" : tiles : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

// d (64, 64) = or += a (64, 16) * b (64, 16)^T, both in shared memory with the summed dimension
// contiguous.
template <typename Element>
__device__ inline void wgmma_rows(float (&d)[8][4], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "0, 0");
  if constexpr (!kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "0, 0");
}

// The same, with a in registers as mma.sync holds it.
template <typename Element>
__device__ inline void wgmma_rows(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (kIsFp16<Element>) WEFT_MULTIPLY_ROWS("f16", "64", WEFT_SUMS64, WEFT_TILES64(d), "%32,%33,%34,%35", "36", "37");
  if constexpr (!kIsFp16<Element>) WEFT_MULTIPLY_ROWS("bf16", "64", WEFT_SUMS64, WEFT_TILES64(d), "%32,%33,%34,%35", "36", "37");
}

// d (64, 8 * kN) = or += a (16, 64)^T * b (16, 8 * kN), both in shared memory with rows contiguous.
template <typename Element, int kN>
__device__ inline void wgmma_transposed(float (&d)[kN][4], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kN == 8 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "1, 1");
  if constexpr (kN == 8 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "1, 1");
  if constexpr (kN == 12 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "96", WEFT_SUMS96, WEFT_TILES96(d), "48", "49", "50", "1, 1");
  if constexpr (kN == 12 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "96", WEFT_SUMS96, WEFT_TILES96(d), "48", "49", "50", "1, 1");
}

// d (64, 8 * kN) += a (64, 16) * b (16, 8 * kN): a in registers as mma.sync holds it, b in shared
// memory, rows contiguous.
template <typename Element, int kN>
__device__ inline void wgmma_columns(float (&d)[kN][4], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kN == 8 && kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("f16", "64", WEFT_SUMS64, WEFT_TILES64(d), "%32,%33,%34,%35", "36");
  if constexpr (kN == 8 && !kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("bf16", "64", WEFT_SUMS64, WEFT_TILES64(d), "%32,%33,%34,%35", "36");
  if constexpr (kN == 12 && kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("f16", "96", WEFT_SUMS96, WEFT_TILES96(d), "%48,%49,%50,%51", "52");
  if constexpr (kN == 12 && !kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("bf16", "96", WEFT_SUMS96, WEFT_TILES96(d), "%48,%49,%50,%51", "52");
  if constexpr (kN == 16 && kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("f16", "128", WEFT_SUMS128, WEFT_TILES128(d), "%64,%65,%66,%67", "68");
  if constexpr (kN == 16 && !kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("bf16", "128", WEFT_SUMS128, WEFT_TILES128(d), "%64,%65,%66,%67", "68");
  if constexpr (kN == 20 && kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("f16", "160", WEFT_SUMS160, WEFT_TILES160(d), "%80,%81,%82,%83", "84");
  if constexpr (kN == 20 && !kIsFp16<Element>) WEFT_MULTIPLY_COLUMNS("bf16", "160", WEFT_SUMS160, WEFT_TILES160(d), "%80,%81,%82,%83", "84");
}
#undef WEFT_MULTIPLY_SHARED
#undef WEFT_MULTIPLY_ROWS
#undef WEFT_MULTIPLY_COLUMNS
#undef WEFT_TILE
#undef WEFT_TILES4
#undef WEFT_SUMS64
#undef WEFT_SUMS96
#undef WEFT_SUMS128
#undef WEFT_SUMS160
#undef WEFT_TILES64
#undef WEFT_TILES96
#undef WEFT_TILES128
#undef WEFT_TILES160
// clang-format on

// acc = A * B^T over D columns. This starts one group of operations, for which the caller waits.
template <typename Element, int D>
__device__ inline void start_rows_product(float (&acc)[8][4], PanelTile<D, 64> a,
                                          PanelTile<D, 64> b) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
    wgmma_rows<Element>(acc, a.rows_operand(k), b.rows_operand(k), k > 0);
  wgmma_commit();
}

// The same, with A in registers.
template <typename Element, int D>
__device__ inline void start_rows_product(float (&acc)[8][4], const RegisterTile<D>& a,
                                          PanelTile<D, 64> b) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) wgmma_rows<Element>(acc, a.words[k], b.rows_operand(k), k > 0);
  wgmma_commit();
}

// acc += A * B over 64 rows, with A in registers.
template <typename Element, int D>
__device__ inline void start_columns_product(float (&acc)[D / 8][4], const uint32_t (&a)[4][4],
                                             PanelTile<D, 64> b) {
#pragma unroll
  for (int k = 0; k < 4; ++k) wgmma_columns<Element>(acc, a[k], b.columns_operand(k));
  wgmma_commit();
}

// acc = or += A^T * B over 64 rows.
template <typename Element, int D>
__device__ inline void start_transposed_product(float (&acc)[D / 8][4], PanelTile<64, 64> a,
                                                PanelTile<D, 64> b, bool accumulate) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    wgmma_transposed<Element>(acc, a.columns_operand(k), b.columns_operand(k), accumulate || k > 0);
  }
  wgmma_commit();
}

#endif  // sm_90a

}  // namespace weft::cuda
