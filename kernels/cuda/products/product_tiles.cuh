// A product's arguments, and the order in which its clusters of blocks take the tiles of the results.
#pragma once

#include "kernels/cuda/products/product_memory.cuh"

namespace weft::cuda::products {

struct Args {
  void* out;           // (M,N): GELU of `pre`, or dpre
  void* pre;           // (M,N): forward writes it, backward reads it
  const void* bias;    // (N); forward
  float* column_sums;  // (ceil(M / 128), N) or null; backward
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

// Where a block's tile begins.
struct Origin {
  int row, column;
};

// The tiles of a block, in their order. Clusters that run side by side walk through `walk_rows` rows of tiles, column after
// column, so that they share rows of the left factor and columns of the right one in L2.
class Tiles {
 public:
  __device__ Tiles(const Args& args, int rank)
      : args_(args), rank_(rank), tile_(blockIdx.x / kCluster) {}
  __device__ bool has_one() const { return tile_ < args_.num_tiles(); }
  __device__ void next() { tile_ += gridDim.x / kCluster, ++count_; }
  __device__ int count() const { return count_; }  // of tiles before this one
  __device__ Origin origin() const {
    const int walk_tiles = args_.walk_rows * args_.num_columns();
    const int walk = tile_ / walk_tiles, in_walk = tile_ - walk * walk_tiles;
    const int first = walk * args_.walk_rows;
    const int height = min(args_.walk_rows, args_.num_rows() - first);
    return {((first + in_walk % height) * kCluster + rank_) * kTileM, in_walk / height * kTileN};
  }

 private:
  const Args& args_;
  int rank_, tile_, count_ = 0;
};

#endif  // sm_90a

}  // namespace weft::cuda::products
