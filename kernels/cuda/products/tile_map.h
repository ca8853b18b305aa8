// How the tensor memory accelerator sees a matrix.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace weft::cuda {

// Returns a tensor map of a row-major (rows, columns) matrix of 16-bit numbers with boxes of
// box_rows x 64, swizzled by 128 bytes. What is outside is copied as zeros. Throws DeviceLost.
CUtensorMap tile_map(const void* data, int64_t rows, int64_t columns, int box_rows);

}  // namespace weft::cuda
