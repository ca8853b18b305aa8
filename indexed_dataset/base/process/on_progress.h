// How a library says how far its work is, to whoever prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace weft {

// Is called by any thread when `num_new` of the `num_all` bytes (or whatever is counted) of a phase
// of the work have been done since the last call. A phase is named by its verb: "verified".
using OnProgress = std::function<void(const std::string& phase, int64_t num_new, int64_t num_all)>;

}  // namespace weft
