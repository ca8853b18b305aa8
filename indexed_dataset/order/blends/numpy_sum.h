// NumPy's sum of doubles, bit for bit: pairwise from 8 terms on (numpy/_core/src/umath/
// loops_utils.h.src, DOUBLE_pairwise_sum). The last bit of a weight can decide which dataset of a
// blend gives a sample.
#pragma once

#include <span>
#include <vector>

namespace weft {

double numpy_sum(std::span<const double> values);

// Each weight divided by the sum of all, as Megatron-Core's normalize().
std::vector<double> normalize_weights(std::span<const double> weights);

}  // namespace weft
