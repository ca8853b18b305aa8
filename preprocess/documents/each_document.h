// The documents of one input, one after another, for tools that need no pipeline.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/inputs/input.h"

namespace weft {

// Calls use(text) for the string, or each string of the list, under the first key of every line of
// `input`, or for every text of it: as `rules` say. Looks at the input first. Bad lines are left
// out and counted, the message of the first one is given; lone surrogates become U+FFFD. Throws
// ReadCancelled soon after `cancelled` is set, as ByteSource::read, and what `use` throws.
void for_each_document(Input& input, const TokenizeRules& rules, const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line);

}  // namespace weft
