// Writes a profile as text for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/ceilings/device_ceilings.h"
#include "trainer/profile/step_profile.h"

namespace weft {

// A rank's profile comes with what it is compared with.
struct RankProfile {
  int rank = 0;
  int64_t first_step = 0, last_step = 0;  // iterations
  std::string device = {};
  StepProfile profile = {};
  // These are medians of the device's time, of the profiled steps and of some steps before them;
  // the difference is what the events cost. 0 means that there were no such steps.
  double profiled_ms = 0, unprofiled_ms = 0;
  std::optional<DeviceCeilings> ceilings = {};
};

// Returns a table whose lines come by falling gap: the time that the line takes of a step beyond
// the device's ceiling. Without ceilings they come by falling time. Lines of less than 0.1 % of a
// step are summed up in one.
std::string to_text(const RankProfile& profile);
// Returns one JSON object with all lines.
std::string to_json_text(const RankProfile& profile);

// Returns a table over ranks: each line's least, mean and greatest time over the ranks that have
// it, by the falling mean gap. `ranks` are the objects of to_json_text().
std::string to_text_of_ranks(const std::vector<std::string>& ranks);
// Returns the JSON document of a run, which holds the objects of its ranks.
std::string to_json_document(const std::vector<std::string>& ranks);

}  // namespace weft
