// Finds the name that was probably meant, for messages about one that does not exist.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Returns the one of `names` that is nearest to `name` by edit distance, the first of several; ""
// if each of them differs in a whole word. Underscores count as dashes, which join the words of
// options: --micro_batch_size is the commonest slip.
std::string nearest_name(std::string name, const std::vector<std::string>& names);

}  // namespace weft
