// Finds the checkpoint of a --save folder that a run goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct CheckpointChoice {
  int64_t iteration = 0;
  std::vector<std::string> warnings = {};  // why it is not the one that was to be expected
};
// Returns the checkpoint that a run resumes from: the one that the tracker names; where that is not
// whole, or there is no tracker, the newest whole one (not newer than the tracker's), with a
// warning. Returns nothing where there is neither a tracker nor an iter_ folder. Throws
// std::runtime_error, which names the folders, where none can be loaded.
std::optional<CheckpointChoice> choose_checkpoint(const std::filesystem::path& dir);

}  // namespace weft
