// Says what a line that is no document seems to be instead, and what to do about it: the last part
// of its message. Corpora come as Parquet, as one JSON array, zipped, in UTF-16 or under other
// keys; people who try that should learn it from the first message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/bad_lines.h"

namespace weft {

// Fills in the hint of a bad line that will be shown, and for invalid UTF-8 where it is. `text`
// begins with `line` and goes on with what has been read behind it, because binary files have line
// ends anywhere. All bytes are untrusted; those that are shown are escaped for terminals.
void explain_bad_line(BadLine& bad_line, std::string_view text, std::string_view line,
                      const std::vector<std::string>& keys);

// The same for a text that is no document.
void explain_bad_text(BadLine& bad_line, std::string_view text);

}  // namespace weft
