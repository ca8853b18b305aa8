#include "kernels/cuda/products/tile_map.h"

#include <string>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/hopper/tensor_map.h"

namespace weft::cuda {

CUtensorMap tile_map(const void* data, int64_t rows, int64_t columns, int box_rows) {
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

}  // namespace weft::cuda
