// What a line that is no document seems to be instead, and what to do about it: the last part of
// its message. Corpora come as Parquet, as one JSON array, zipped, in UTF-16 or under other keys;
// who tries that should learn it from the first message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/line_problem.h"

namespace weft {

// "" if nothing is to be said. `line` is what `outcome` is about; `text` begins with it and goes on
// with what has been read behind it, for what is no text has line ends anywhere. `is_first`:
// nothing stands before it. All bytes are untrusted; those that are shown are escaped for
// terminals.
std::string bad_line_hint(std::string_view text, std::string_view line, bool is_first,
                          const LineOutcome& outcome, const std::vector<std::string>& keys);

}  // namespace weft
