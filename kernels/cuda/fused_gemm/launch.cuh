// The host's part of a product on Hopper.
#pragma once

#include <algorithm>
#include <string>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/shared_memory.h"
#include "kernels/cuda/fused_gemm/hopper_gemm.cuh"
#include "kernels/cuda/hopper/tensor_map.h"

namespace weft::cuda::fused_gemm {

// A tile's bias lies where that of two tiles before lay, and is loaded with the tile's first stage.
// So that stage must have been released in the tile between: a tile has at least as many steps as
// there are stages.
constexpr int kMinTerms = 4 * kTileK;
static_assert(kMinTerms >= kStages * kTileK);

// Returns how the tensor memory accelerator sees a row-major (rows, columns) matrix of 16 bits:
// in boxes of box_rows x 64, swizzled by 128 bytes. What is outside is copied as zeros. Throws
// DeviceLost.
inline CUtensorMap tile_map(const void* data, int64_t rows, int64_t columns, int box_rows) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(columns) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};
  CUtensorMap map;
  const CUresult result = encode_tiled()(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<void*>(data), sizes, strides, box,
      element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw DeviceLost("cuTensorMapEncodeTiled failed with " +
                     std::to_string(static_cast<int>(result)) + " for a matrix of " +
                     std::to_string(rows) + " x " + std::to_string(columns) +
                     "; is it 16-byte aligned?");
  }
  return map;
}

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
void launch_gemm(cudaStream_t stream, const void* left, const void* right, const Args& args) {
  const auto kernel = gelu_gemm_kernel<Element, kBackward>;
  constexpr int kSharedBytes = shared_bytes(kBackward);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kSharedBytes, "gelu_gemm_kernel");
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

}  // namespace weft::cuda::fused_gemm
