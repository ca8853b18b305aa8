// The flash attention kernels of the current CUDA device, in words.
#pragma once

#include <string>

#include "kernels/numbers/tensor.h"

namespace weft {

// Names the kernels that attention of a head size with has_flash_attention() runs in models of type
// `x`, and where a Hopper GPU does not run its own, why. Throws as the first call of attention
// would.
std::string flash_kernels(DType x);

}  // namespace weft
