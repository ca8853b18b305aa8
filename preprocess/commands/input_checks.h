// Looks at the names that --input gives, before anything is read.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Says what is wrong with the names as a whole: there is none, or standard input is among them
// twice, as '-' or as the file /dev/stdin. "" if nothing is.
std::string problem_of_inputs(const std::vector<std::string>& inputs);

// Names inputs that are the same file or URL under one or two names; "" if none are.
std::string describe_repeated_inputs(const std::vector<std::string>& inputs);

}  // namespace weft
