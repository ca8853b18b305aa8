// Warpgroup-level building blocks of attention on Hopper (sm_90a): tiles that the tensor memory
// accelerator copies into swizzled shared memory, and wgmma with fp32 sums. [PTX ISA,
// "Asynchronous Warpgroup Level Matrix Operations"]
//
// The device code exists only where the compiler targets sm_90a; wgmma.cu tests that at run time.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/attention/async_copies.cuh"
#include "kernels/cuda/attention/mma.cuh"

namespace weft::cuda::attention {

// --- host side (wgmma.cu) ---

// Returns a tensor map of a (B, T, num_rows, head_size) tensor of 16-bit numbers, with boxes of 64 tokens
// of one row and one panel of a tile of D columns. Columns beyond the head are copied as zeros. Throws
// DeviceLost.
CUtensorMap tensor_map(const void* data, int D, int head_size, int num_rows, int T, int B);

// Returns whether the current device runs sm_90a code and `kernel` was compiled for it. (The kernel
// has static shared memory in that code only.) WEFT_ATTENTION=mma_sync says no, which lets tests run
// the kernels of other GPUs.
bool runs_on_hopper(const void* kernel);

// --- device side ---

constexpr int kBoxRows = 64;

// Columns lie in panels as wide as the swizzle: 64 columns (128 bytes), or 32 (64 bytes) where D is no
// multiple of 64.
template <int D>
struct Panel {
  static constexpr int kColumns = D % 64 == 0 ? 64 : 32;
  static constexpr int kCount = D / kColumns;
  static constexpr int kRowBytes = 2 * kColumns;
  static constexpr uint64_t kSwizzleCode = kColumns == 64 ? 1 : 2;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Stores four matrices of 8 x 8 numbers as tensor cores hold them; lane i has the address of row i of all.
__device__ inline void store_matrices(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

__device__ inline uint32_t load_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}
__device__ inline float load_float(uint32_t address) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
  return x;
}
__device__ inline void store_float(uint32_t address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ inline void load_pair(float (&x)[2], uint32_t address) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(address));
}

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

  // Starts copying the tile (64 rows) to tokens [token, token + 64) of row `row`, as part of this thread's
  // group of stores. Nothing is written beyond the tensor's end.
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
    constexpr int kChunks = P::kColumns / 8;  // of a panel's row
    const int mixed = chunk % kChunks ^ (kChunks == 8 ? row % 8 : row / 2 % 4);
    return base + chunk / kChunks * kPanelBytes + row * P::kRowBytes + mixed * 16;
  }

  // These return matrix descriptors. The low word holds the address and the leading stride (in 16
  // bytes), so that one addition of a constant moves on inside the tile; the high word is constant.
  // Shared addresses are below 2^18.
  __device__ static uint64_t descriptor(uint32_t low_word) {
    constexpr uint64_t kStrideBytes = 8 * P::kRowBytes;  // from 8 rows to the next 8
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
#define WEFT_MULTIPLY_COLUMNS(type, n, sums, tiles, a_idxs, b_idx) \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " " sums \
               ", {" a_idxs "}, %" b_idx ", p, 1, 1, 1; }" : tiles : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

// d (64, 8 * kN) = or += a (64, 16) * b (8 * kN, 16)^T, both in shared memory with the summed dimension contiguous.
template <typename Element, int kN>
__device__ inline void wgmma_rows(float (&d)[kN][4], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kN == 8 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "0, 0");
  if constexpr (kN == 8 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "0, 0");
  if constexpr (kN == 12 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "96", WEFT_SUMS96, WEFT_TILES96(d), "48", "49", "50", "0, 0");
  if constexpr (kN == 12 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "96", WEFT_SUMS96, WEFT_TILES96(d), "48", "49", "50", "0, 0");
  if constexpr (kN == 16 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "128", WEFT_SUMS128, WEFT_TILES128(d), "64", "65", "66", "0, 0");
  if constexpr (kN == 16 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "128", WEFT_SUMS128, WEFT_TILES128(d), "64", "65", "66", "0, 0");
}

// d (64, 8 * kN) = or += a (16, 64)^T * b (16, 8 * kN), both in shared memory with rows contiguous.
template <typename Element, int kN>
__device__ inline void wgmma_transposed(float (&d)[kN][4], uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kN == 8 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "1, 1");
  if constexpr (kN == 8 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "64", WEFT_SUMS64, WEFT_TILES64(d), "32", "33", "34", "1, 1");
  if constexpr (kN == 12 && kIsFp16<Element>) WEFT_MULTIPLY_SHARED("f16", "96", WEFT_SUMS96, WEFT_TILES96(d), "48", "49", "50", "1, 1");
  if constexpr (kN == 12 && !kIsFp16<Element>) WEFT_MULTIPLY_SHARED("bf16", "96", WEFT_SUMS96, WEFT_TILES96(d), "48", "49", "50", "1, 1");
}

// d (64, 8 * kN) += a (64, 16) * b (16, 8 * kN): a in registers as mma.sync holds it, b in shared memory, rows contiguous.
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
template <typename Element, int D, int kRows>
__device__ inline void start_rows_product(float (&acc)[kRows / 8][4], PanelTile<D, 64> a,
                                          PanelTile<D, kRows> b) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
    wgmma_rows<Element>(acc, a.rows_operand(k), b.rows_operand(k), k > 0);
  wgmma_commit();
}

// acc += A * B over kRows rows, with A in registers.
template <typename Element, int D, int kRows>
__device__ inline void start_columns_product(float (&acc)[D / 8][4],
                                             const uint32_t (&a)[kRows / 16][4],
                                             PanelTile<D, kRows> b) {
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) wgmma_columns<Element>(acc, a[k], b.columns_operand(k));
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

// The ring of stages through which the streamed tiles pass. Thread 0 starts the copies; every warp
// reports when it has read a stage. Steps are counted from 0. A stage is refilled kLag steps after its
// use, so that warpgroups may be that far apart before thread 0 has to wait.
template <int kGroups, int kStages>
struct Ring {
  static constexpr int kLag = kStages > 3 ? 2 : 1;
  uint32_t barriers;  // full[kStages], empty[kStages], own tiles

  static constexpr int kNumBarriers = 2 * kStages + 1;
  __device__ static uint32_t stage(int step) { return static_cast<uint32_t>(step) % kStages; }
  __device__ uint32_t full(int step) const { return barriers + 8 * stage(step); }
  __device__ uint32_t empty(int step) const { return full(step) + 8 * kStages; }
  __device__ uint32_t own() const { return barriers + 16 * kStages; }

  // Initialises the barriers and starts the first copies: own(barrier) copies the block's own tiles,
  // load(step) a stage.
  template <class LoadOwn, class Load>
  __device__ void start(int num_steps, LoadOwn load_own, Load load) const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        init_barrier(full(stage), 1);
        init_barrier(empty(stage), 4 * kGroups);
      }
      init_barrier(own(), 1);
      fence_initialised_barriers();
      load_own(own());
      for (int step = 0; step < kStages && step < num_steps; ++step) load(step);
    }
    __syncthreads();
  }
  __device__ void wait(int step) const {
    wait_barrier(full(step), static_cast<uint32_t>(step) / kStages & 1);
  }
  // Reports that this warp has read `step`.
  __device__ void release(int step) const {
    if ((threadIdx.x & 31) == 0) arrive(empty(step));
  }
  // Call this during `step`, after this warp has released step - kLag.
  template <class Load>
  __device__ void refill(int step, int num_steps, Load load) const {
    if (threadIdx.x < 32) {
      const int old = step - kLag;
      if (threadIdx.x == 0 && old >= 0 && old + kStages < num_steps) {
        wait_barrier(empty(old), static_cast<uint32_t>(old) / kStages & 1);
        load(old + kStages);
      }
      __syncwarp();
    }
  }

  // Releases steps [begin, end) unread.
  template <class Load>
  __device__ void pass(int begin, int end, int num_steps, Load load) const {
    for (int step = begin; step < end; ++step) {
      wait(step);
      release(step);
      refill(step, num_steps, load);
    }
  }
};

// Returns `x`, which is equal in all lanes of a warp, in a form that the compiler knows to be so.
__device__ inline int uniform(int x) { return __shfl_sync(0xFFFFFFFFu, x, 0); }
// Returns the index of this thread's warpgroup, in that form.
__device__ inline int warpgroup_index() { return uniform(static_cast<int>(threadIdx.x) / 128); }
__device__ inline void sync_warpgroup() {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + static_cast<int>(threadIdx.x) / 128) : "memory");
}

#endif  // sm_90a

// Tiles need 1024-byte aligned shared memory, so a launch asks for that much more.
constexpr int kSharedAlignment = 1024;
__device__ inline uint32_t aligned_shared(const void* shared) {
  return (shared_address(shared) + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

// kGroups warpgroups own 64 rows each; tiles of kStepRows rows of the other side stream through
// kStages stages.
template <typename ElementType, int kHeadSize, int kNumGroups, int kStepRows, int kNumStages,
          int kMinBlocks>
struct HopperShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kGroups = kNumGroups;
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kOwned = 64 * kGroups;
  static constexpr int kStep = kStepRows;
  static constexpr int kStages = kNumStages;
  static constexpr int kBlocksPerSm = kMinBlocks;
  static constexpr int kOwnBytes = 64 * D * 2;      // one tensor of one warpgroup
  static constexpr int kStepBytes = kStep * D * 2;  // one tensor of one stage
  // With dropout, each warpgroup has a tile of the mask in a stage.
  static_assert(kStep == kMaskTile);
  static constexpr int kMaskBytes = kGroups * kMaskTileBytes;
  static constexpr int shared_bytes(int num_own, bool dropout) {
    return kSharedAlignment + num_own * kGroups * kOwnBytes +
           kStages * (2 * kStepBytes + 2 * kStep * 4 + (dropout ? kMaskBytes : 0));
  }
};

}  // namespace weft::cuda::attention
