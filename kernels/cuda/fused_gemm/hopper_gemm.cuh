// A product on Hopper whose results go through GELU, or its derivative, on their way to memory.
//
// Blocks stay on their multiprocessors and take tiles of 128 x 256 results as long as there are
// any. Two warpgroups multiply; they leave the rounded results in shared memory and go on with the
// next tile. Three warps of the third warpgroup finish them meanwhile, and its fourth warp starts
// the copies of the factors.
#pragma once

#include "kernels/cuda/fused_gemm/gemm_tiles.cuh"
#include "kernels/cuda/fused_gemm/gemm_writer.cuh"
#include "kernels/cuda/fused_gemm/wide_wgmma.cuh"

namespace weft::cuda::fused_gemm {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Copies the factors' tiles to the stages; one thread does all of it. In the cluster's first block
// it also draws tiles: the next one when a tile begins. It announces it in the middle of the tile,
// when the counter has long answered.
template <typename Element, bool kBackward>
__device__ inline void load_stages(const Args& args, const GemmMemory& memory,
                                   const CUtensorMap& left_map, const CUtensorMap& right_map,
                                   int rank, int first_drawn) {
  expect_bytes(memory.announced(0), sizeof(Origin));
  if (rank == 0) announce_tile(memory, 0, origin_of(args, first_drawn));
  int step = 0;
  for (Tiles tiles(memory); tiles.has_one(); tiles.next()) {
    const Origin at = tiles.origin();
    const auto load = [&](int k) {
      wait_barrier(memory.empty(step), memory.phase(step) ^ 1);
      const uint32_t full = memory.full(step);
      if (!kBackward && k == 0) {
        // The bias of tile t overwrites that of tile t-2. Its last readers are done, because the
        // stage that is filled here was released during tile t-1, which needs at least kStages
        // steps (kMinTerms).
        memory.bias_reads(tiles.count()).require(tiles.count() / 2);
        const int num_bytes = min(kTileN, args.N - at.column) * 2;
        expect_bytes(full, kStageBytes + num_bytes);
        load_bytes(memory.bias(tiles.count()), static_cast<const Element*>(args.bias) + at.column,
                   num_bytes, full);
      } else {
        expect_bytes(full, kStageBytes);
      }
      load_box(memory.left(step), left_map, k * kTileK, at.row, full);
      constexpr int kHalf = kRightBytes / kCluster;
      const uint32_t right = memory.right(step) + rank * kHalf;
      const int column = at.column + rank * (kTileN / kCluster);
      if constexpr (kBackward) {  // panels of 64 columns and the stage's terms as rows
        load_box_to_both(right, right_map, column, k * kTileK, full);
        load_box_to_both(right + kHalf / 2, right_map, column + 64, k * kTileK, full);
      } else {
        load_box_to_both(right, right_map, k * kTileK, column, full);
      }
      ++step;
    };
    const int next = tiles.count() + 1, half = args.num_steps / 2;
    expect_bytes(memory.announced(next), sizeof(Origin));
    const int drawn = rank == 0 ? draw_tile(args) : 0;
    for (int k = 0; k < half; ++k) load(k);
    if (rank == 0) {
      memory.origin_reads(next).require(next / kAnnounced);
      announce_tile(memory, next, origin_of(args, drawn));
    }
    for (int k = half; k < args.num_steps; ++k) load(k);
  }
}

// Multiplies 64 rows of each tile and leaves them, rounded and with the bias, in shared memory.
template <typename Element, bool kBackward>
__device__ inline void multiply_tiles(const Args& args, const GemmMemory& memory, int group) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4;
  // A stage is free when no warpgroup of the cluster reads it any more. The first warp arrives
  // for its warpgroup, whose products need all of its warps (wgmma.cuh).
  const auto release = [&](int step) {
    if (warp == 0 && lane < kCluster) arrive_in_cluster(memory.empty(step), lane);
  };
  int step = 0;
  for (Tiles tiles(memory); tiles.has_one();) {
    float sums[kTileN / 8][4];
    for (int k = 0; k < args.num_steps; ++k, ++step) {
      wait_barrier(memory.full(step), memory.phase(step));
      wgmma_fence();
      // A matrix descriptor has no room for the block's rank in the cluster, which a shared address
      // begins with.
      constexpr uint32_t kOffsetMask = (1U << 18) - 1;
      const PanelTile<kTileK, 64> left{(memory.left(step) & kOffsetMask) +
                                       group * PanelTile<kTileK, 64>::kBytes};
      const uint32_t right = memory.right(step) & kOffsetMask;
#pragma unroll
      for (int part = 0; part < kTileK / 16; ++part) {
        const uint64_t b = kBackward ? PanelTile<kTileN, kTileK>{right}.columns_operand(part)
                                     : PanelTile<kTileK, kTileN>{right}.rows_operand(part);
        wgmma_wide<Element, kBackward>(sums, left.rows_operand(part), b, (k | part) != 0);
      }
      wgmma_commit();
      if (k > 0) {
        wgmma_wait<1>();
        release(step - 1);
      }
    }
    const int tile = tiles.count();
    tiles.next();  // The last product is computed meanwhile.
    wgmma_wait<0>();
    pin(sums);
    release(step - 1);
    wait_barrier(memory.results_empty(group), (tile & 1) ^ 1);
    const uint32_t bias = memory.bias(tile) + (lane & 3) * 4;
    const uint32_t to =
        memory.results(group) + (warp * 16 + (lane & 15)) * kResultRowBytes + (lane >> 4) * 16;
#pragma unroll
    for (int n = 0; n < kTileN / 8; n += 2) {
      uint32_t packed[4];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float2 b = {};
        if constexpr (!kBackward) b = unpack_pair<Element>(load_word(bias + (n + j) * 16));
        const float(&s)[4] = sums[n + j];
        packed[2 * j] = pack<Element>(s[0] + b.x, s[1] + b.y);
        packed[2 * j + 1] = pack<Element>(s[2] + b.x, s[3] + b.y);
      }
      store_matrices(to + n * 16, packed);
    }
    memory.bias_reads(tile).add();
    __syncwarp();
    if (lane == 0) arrive(memory.results_full(group));
  }
}

#endif  // sm_90a

template <typename Element, bool kBackward>
__global__ void __launch_bounds__(kThreads, 1)
    gelu_gemm_kernel(const __grid_constant__ CUtensorMap left_map,
                     const __grid_constant__ CUtensorMap right_map,
                     const __grid_constant__ Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ __align__(8) uint64_t barriers[GemmMemory::kNumWords];
  extern __shared__ uint8_t shared[];
  const GemmMemory memory{aligned_shared(shared), shared_address(barriers)};
  const int rank = rank_in_cluster(), group = warpgroup_index();
  const bool loads = threadIdx.x == kThreads - 32;
  int first_drawn = 0;
  if (loads) {
    if (rank == 0) first_drawn = draw_tile(args);
    memory.init_barriers();
  }
  sync_cluster();
  // The warpgroups that multiply take registers from the third one: of the 168 that each thread has
  // at launch, 64,512 in all, they take 2 x 128 x 192, and it keeps 128 x 120.
  if (group < kGroups) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 192;");
    multiply_tiles<Element, kBackward>(args, memory, group);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 120;");
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32 % 4);
    if (warp < kWriters) {
      write_tiles<Element, kBackward>(args, memory, warp);
    } else if (loads) {
      load_stages<Element, kBackward>(args, memory, left_map, right_map, rank, first_drawn);
    }
    __syncwarp();
  }
  // No block leaves while the other one may still write to its memory.
  sync_cluster();
#endif
}

}  // namespace weft::cuda::fused_gemm
