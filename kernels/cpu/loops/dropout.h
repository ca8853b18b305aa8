// Dropout as a row of multipliers, and attention's mask.
#pragma once

#include <cstdint>

#include "kernels/numbers/dropout.h"

namespace weft::cpu {

// out[i] = 0 where element first_element + first + i is dropped, else 1/(1-p).
void dropout_multipliers(float* out, const Dropout& dropout, int64_t first, int64_t n);

// Draws attention's mask (kernels/numbers/dropout.h): num_words words, the first of which has the
// bits from first_element + 32 * first_word on. Both, and first_element / 32, are multiples of
// kMaskWordsPerDraw.
void dropout_words(uint32_t* words, const Dropout& dropout, int64_t first_word, int64_t num_words);

}  // namespace weft::cpu
