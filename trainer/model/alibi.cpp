#include "trainer/model/alibi.h"

#include <bit>
#include <cmath>

namespace weft {

std::vector<float> alibi_slopes(int64_t num_heads) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_heads)));
  std::vector<float> slopes;
  for (int64_t head = 0; head < num_heads; ++head) {
    // Among `below` heads, or among twice as many.
    const int64_t number = head < below ? 2 * (head + 1) : 2 * (head - below) + 1;
    const double exponent = -8.0 * static_cast<double>(number) / static_cast<double>(2 * below);
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  }
  return slopes;
}

}  // namespace weft
