// A product's arguments, and how its clusters of blocks take the tiles of the results.
//
// Clusters draw tiles from a counter in device memory. So a cluster that begins late, because other
// kernels hold its multiprocessors (collectives do), leaves tiles to those that run.
#pragma once

#include "kernels/cuda/fused_gemm/gemm_memory.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"

namespace weft::cuda::fused_gemm {

struct Args {
  void* out;               // (M,N): GELU of `pre`, or dpre
  void* pre;               // (M,N): forward writes it, backward reads it
  const void* bias;        // (N); forward
  float* column_sums;      // (ceil(M / 128), N) or null; backward
  uint32_t* tile_counter;  // 0 before and after the product
  int M, N, K;
  int num_steps;  // ceil(K / kTileK)
  int walk_rows;  // rows of clusters' tiles that are walked through together

  __host__ __device__ int num_rows() const {
    return (M + kTileM * kCluster - 1) / (kTileM * kCluster);
  }
  __host__ __device__ int num_columns() const { return (N + kTileN - 1) / kTileN; }
  __host__ __device__ int num_tiles() const { return num_rows() * num_columns(); }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Where a block's tile begins. A negative row says that there is no tile any more.
struct Origin {
  int row, column;
};

// Draws the number of a tile. Each cluster draws once more than it gets tiles, so after the last
// draw of all the counter is 0 again, for the next product.
__device__ inline int draw_tile(const Args& args) {
  const uint32_t num_draws = args.num_tiles() + gridDim.x / kCluster;
  return static_cast<int>(atomicInc(args.tile_counter, num_draws - 1));
}

// Returns where the first block's part of a drawn tile begins. Clusters that run side by side walk
// through `walk_rows` rows of tiles, column after column, so that they share rows of the left
// factor and columns of the right one in L2.
__device__ inline Origin origin_of(const Args& args, int drawn) {
  if (drawn >= args.num_tiles()) return {-kCluster * kTileM, 0};
  const int walk_tiles = args.walk_rows * args.num_columns();
  const int walk = drawn / walk_tiles, in_walk = drawn - walk * walk_tiles;
  const int first = walk * args.walk_rows;
  const int height = min(args.walk_rows, args.num_rows() - first);
  return {(first + in_walk % height) * kCluster * kTileM, in_walk / height * kTileN};
}

// Tells both blocks where their parts of the cluster's tile `tile` begin; a cluster's tiles are
// counted from 0. The bytes count towards the barrier beside them, so remote memory needs no fence.
__device__ inline void announce_tile(const GemmMemory& memory, int tile, Origin at) {
#pragma unroll
  for (int rank = 0; rank < kCluster; ++rank) {
    asm volatile(
        "{ .reg .b32 origin, barrier; mapa.shared::cluster.u32 origin, %0, %4; "
        "mapa.shared::cluster.u32 barrier, %1, %4; "
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [origin], {%2, %3}, "
        "[barrier]; }" ::"r"(memory.origin(tile)),
        "r"(memory.announced(tile)), "r"(at.row + rank * kTileM), "r"(at.column), "r"(rank)
        : "memory");
  }
}

// The tiles of a block, in the order in which they are announced.
class Tiles {
 public:
  __device__ explicit Tiles(const GemmMemory& memory) : memory_(memory) { read(); }
  __device__ bool has_one() const { return at_.row >= 0; }
  __device__ void next() { ++count_, read(); }
  __device__ int count() const { return count_; }  // tiles before this one
  __device__ Origin origin() const { return at_; }

 private:
  __device__ void read() {
    wait_barrier(memory_.announced(count_), GemmMemory::announced_phase(count_));
    at_.row = static_cast<int>(load_word(memory_.origin(count_)));
    at_.column = static_cast<int>(load_word(memory_.origin(count_) + 4));
    memory_.origin_reads(count_).add();
  }

  const GemmMemory& memory_;
  int count_ = 0;
  Origin at_;
};

#endif  // sm_90a

}  // namespace weft::cuda::fused_gemm
