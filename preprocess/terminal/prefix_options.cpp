#include "preprocess/terminal/prefix_options.h"

#include <algorithm>
#include <thread>

namespace weft {

int ThreadsOption::resolved() const {
  if (num_threads > 0) return static_cast<int>(num_threads);
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
}

}  // namespace weft
