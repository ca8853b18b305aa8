#include "trainer/evaluate/windows.h"

#include <algorithm>

namespace weft {

std::vector<ScoreRequest> rolling_windows(const std::vector<int32_t>& tokens, int64_t length,
                                          int64_t stride, int32_t prefix) {
  std::vector<int32_t> all;
  if (prefix >= 0) all.push_back(prefix);
  all.insert(all.end(), tokens.begin(), tokens.end());
  const auto end_of_all = static_cast<int64_t>(all.size());
  std::vector<ScoreRequest> windows;
  for (int64_t predicted = 1; predicted < end_of_all;) {
    const int64_t end = std::min(end_of_all, predicted + (predicted == 1 ? length : stride));
    const int64_t begin = std::max<int64_t>(0, end - 1 - length);
    windows.push_back({.tokens = {all.begin() + begin, all.begin() + end},
                       .num_context = static_cast<size_t>(predicted - begin)});
    predicted = end;
  }
  return windows;
}

}  // namespace weft
