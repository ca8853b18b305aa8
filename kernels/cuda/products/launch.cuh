// The host's part of a product on Hopper.
#pragma once

#include <algorithm>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/shared_memory.h"
#include "kernels/cuda/products/hopper_product.cuh"
#include "kernels/cuda/products/tile_map.h"

namespace weft::cuda::products {

// A tile's bias lies where that of two tiles before lay, and is loaded with the tile's first stage.
// So that stage must have been released in the tile between: a tile has at least as many steps as
// there are stages.
constexpr int kMinTerms = 4 * kTileK;
static_assert(kMinTerms >= kStages * kTileK);

inline Args args_of(int64_t M, int64_t N, int64_t K) {
  Args args = {};
  args.M = static_cast<int>(M);
  args.N = static_cast<int>(N);
  args.K = static_cast<int>(K);
  args.num_steps = static_cast<int>(ceil_div(K, kTileK));
  return args;
}

// left is (M,K); right is (N,K), and (K,N) in backward.
template <typename Element, bool kBackward>
void launch_product(cudaStream_t stream, const void* left, const void* right, const Args& args) {
  const auto kernel = gelu_product_kernel<Element, kBackward>;
  constexpr int kSharedBytes = shared_bytes(kBackward);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kSharedBytes, "gelu_product_kernel");
  const CUtensorMap left_map = tile_map(left, args.M, args.K, kTileM);
  const CUtensorMap right_map = kBackward ? tile_map(right, args.K, args.N, kTileK)
                                          : tile_map(right, args.N, args.K, kTileN / kCluster);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config = {};
  const int num_clusters = std::min(args.num_tiles(), num_multiprocessors() / kCluster);
  config.gridDim = static_cast<unsigned>(num_clusters * kCluster);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, left_map, right_map, args));
}

}  // namespace weft::cuda::products
