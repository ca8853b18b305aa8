// A backend that writes down what the trainer gives it. recording_backend.cpp puts it in the place
// of the CPU's, with --wrap.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// The tokens of one micro-batch, the mask of its loss, and whether gradients followed.
struct Pass {
  std::vector<int32_t> tokens;
  bool trains = false;
  std::vector<float> mask = {};  // empty: all ones
};
extern std::vector<Pass> passes;

}  // namespace weft
