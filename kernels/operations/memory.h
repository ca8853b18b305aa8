// Filling and converting memory.
#pragma once

#include <cstdint>

#include "kernels/operations/operation.h"

namespace weft {

// out = 0.
struct Zero {
  Tensor out = {};
};

// dst = src, converted between fp32 and x; both have the same number of elements.
struct Cast {
  Tensor dst = {}, src = {};
};

#define WEFT_MEMORY_OPERATIONS(X) X(Zero) X(Cast)
WEFT_MEMORY_OPERATIONS(WEFT_DECLARE_OPERATION)

}  // namespace weft
