// A checkpoint that options of weft-model name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

struct CheckpointOption {
  std::string folder;
  std::optional<int64_t> step;

  // Returns the step that was given, else the checkpoint that weft-train would resume from. Throws
  // std::runtime_error for a folder without one.
  int64_t iteration() const;
};

}  // namespace weft
