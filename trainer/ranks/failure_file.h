// failure.json: why a run of several ranks has ended, and where each rank stood.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/ranks/rank_progress.h"

namespace weft {

struct RankAtFailure {
  std::string place;  // "node3, process 4711"
  bool is_gone = false;
  RankProgress progress = {};
};

// Writes FOLDER/failure.json. Without a folder, or where it cannot be written, it does nothing: the
// reason is printed anyhow, and a full disk may be the reason.
void write_failure_file(const std::filesystem::path& folder, int exit_code,
                        const std::string& reason, const std::vector<RankAtFailure>& ranks);

}  // namespace weft
