// The driver's function that makes tensor maps.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace weft::cuda::attention {

// Looks the function up once, at run time, so that nothing links libcuda. Throws std::invalid_argument where the
// driver is too old to have it.
PFN_cuTensorMapEncodeTiled_v12000 encode_tiled();

}  // namespace weft::cuda::attention
