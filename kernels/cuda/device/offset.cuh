// A number of an operation that is on the device, so that a recording of it can be replayed
// elsewhere.
#pragma once

#include <cstdint>

namespace weft::cuda {

// Returns the number, or 0 where there is none.
__device__ inline int value_of(const int32_t* offset) { return offset == nullptr ? 0 : *offset; }

}  // namespace weft::cuda
