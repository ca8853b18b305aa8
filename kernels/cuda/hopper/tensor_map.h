// Tensor maps, by which the tensor memory accelerator (TMA) finds its way in a tensor.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/numbers/head_vectors.h"

namespace weft::cuda {

constexpr int kBoxRows = 64;  // One copy moves so many.

// Looks the function up once, at run time, so that nothing links libcuda. Throws
// std::invalid_argument where the driver is too old to have it.
PFN_cuTensorMapEncodeTiled_v12000 encode_tiled();

// Returns a tensor map of vectors of 16-bit numbers, with the coordinates (column, row, token,
// sample), where row is vectors.row(head). Its boxes are 64 tokens of one row and one panel of a
// tile of so many columns. Columns beyond the head are copied as zeros. Throws DeviceLost.
CUtensorMap tensor_map(const HeadVectors& vectors, int columns);

}  // namespace weft::cuda
