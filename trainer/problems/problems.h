// The checks of a configuration.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// Returns every problem of the configuration, in sentences that name the flags and both values.
std::vector<std::string> problems_of(const Config& config);
// Returns what is unusual but allowed, for the log. There must be no problems.
std::vector<std::string> warnings_of(const Config& config);

}  // namespace weft
