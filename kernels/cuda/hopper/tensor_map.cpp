#include "kernels/cuda/hopper/tensor_map.h"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/device_error.h"

namespace weft::cuda {

namespace {

PFN_cuTensorMapEncodeTiled_v12000 find_encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    throw std::invalid_argument(
        "the driver has no cuTensorMapEncodeTiled; driver 525 or newer is needed on Hopper GPUs");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

PFN_cuTensorMapEncodeTiled_v12000 encode_tiled() {
  static const PFN_cuTensorMapEncodeTiled_v12000 function = find_encode_tiled();
  return function;
}

CUtensorMap tensor_map(const HeadVectors& vectors, int columns) {
  const bool wide = columns % 64 == 0;
  const auto unsigned_of = [](int64_t size) { return static_cast<cuuint64_t>(size); };
  const int num_rows = vectors.row(static_cast<int>(vectors.H) - 1) + 1;
  const cuuint64_t sizes[4] = {unsigned_of(vectors.D), unsigned_of(num_rows),
                               unsigned_of(vectors.T), unsigned_of(vectors.B)};
  const cuuint64_t strides[3] = {unsigned_of(vectors.row_stride) * 2,
                                 unsigned_of(vectors.token_stride) * 2,
                                 unsigned_of(vectors.sample_stride) * 2};
  const cuuint32_t box[4] = {wide ? 64U : 32U, 1, kBoxRows, 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode_tiled()(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, vectors.data, sizes, strides, box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, wide ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw DeviceLost("cuTensorMapEncodeTiled failed with " +
                     std::to_string(static_cast<int>(result)) + " for a tensor of " +
                     std::to_string(vectors.B) + " x " + std::to_string(vectors.T) + " x " +
                     std::to_string(num_rows) + " x " + std::to_string(vectors.D) +
                     "; is it 16-byte aligned?");
  }
  return map;
}

}  // namespace weft::cuda
