// wgmma with 256 columns of results: sums of a warpgroup's 64 rows, 128 in each thread.
#pragma once

#include "kernels/cuda/hopper/wgmma.cuh"

namespace weft::cuda::fused_gemm {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// clang-format off
#define WEFT_SUMS256 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}"
#define WEFT_TILE(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define WEFT_TILES4(n) WEFT_TILE(n), WEFT_TILE(n + 1), WEFT_TILE(n + 2), WEFT_TILE(n + 3)
#define WEFT_TILES16(n) WEFT_TILES4(n), WEFT_TILES4(n + 4), WEFT_TILES4(n + 8), WEFT_TILES4(n + 12)
#define WEFT_MULTIPLY(type, transposed) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " " WEFT_SUMS256 \
               ", %128, %129, p, 1, 1, 0, " transposed "; }" : WEFT_TILES16(0), WEFT_TILES16(16) : "l"(a), "l"(b), "r"(accumulate))

// d (64, 256) = or += a (64, 16) * b. Rows of a are contiguous in shared memory; b is (256, 16)^T
// with contiguous rows, or with kRowsOfTerms (16, 256) with contiguous rows.
template <typename Element, bool kRowsOfTerms>
__device__ inline void wgmma_wide(float (&d)[32][4], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kIsFp16<Element> && kRowsOfTerms) WEFT_MULTIPLY("f16", "1");
  if constexpr (kIsFp16<Element> && !kRowsOfTerms) WEFT_MULTIPLY("f16", "0");
  if constexpr (!kIsFp16<Element> && kRowsOfTerms) WEFT_MULTIPLY("bf16", "1");
  if constexpr (!kIsFp16<Element> && !kRowsOfTerms) WEFT_MULTIPLY("bf16", "0");
}
#undef WEFT_SUMS256
#undef WEFT_TILE
#undef WEFT_TILES4
#undef WEFT_TILES16
#undef WEFT_MULTIPLY
// clang-format on

#endif  // sm_90a

}  // namespace weft::cuda::fused_gemm
