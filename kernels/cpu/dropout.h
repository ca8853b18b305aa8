// Dropout as a row of multipliers.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace weft::cpu {

// out[i] = 0 where element first_element + first + i is dropped, else 1/(1-p).
void dropout_multipliers(float* out, const Dropout& dropout, int64_t first, int64_t n);

}  // namespace weft::cpu
