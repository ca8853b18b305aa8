// What is said of flags that weft-train does not have.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct UnknownFlags {
  std::vector<std::string> problems;
  // Some belong to no subject that is known to be missing: they are slips of the pen, or another
  // program's.
  bool are_slips = false;
};

// `extras` are the arguments that no option has taken, in their order, `flags` those that there
// are. Flags of one subject, as mixtures of experts, make one problem.
UnknownFlags unknown_flags(const std::vector<std::string>& extras,
                           const std::vector<std::string>& flags);

}  // namespace weft
