// The flash attention kernels of the current CUDA device, in words.
#pragma once

#include <string>

namespace weft {

// Names the kernels that attention with has_flash_attention() runs, and where a Hopper GPU does not
// run its own, why. Throws as the first call of attention would.
std::string flash_kernels();

}  // namespace weft
