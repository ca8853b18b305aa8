// The values of all options as text, for the banner and for manifests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// Returns (snake_case name, value in Python's spelling) sorted by name, as Megatron's banner prints
// them.
std::vector<std::pair<std::string, std::string>> resolved_options(const Config& config);
// Returns the same as the text of one JSON object.
std::string resolved_json(const Config& config);

// Returns the name that a flag, which is given without dashes, has there.
std::string snake_case(std::string flag);

}  // namespace weft
