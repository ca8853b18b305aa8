// The documents of one JSONL file, one after another, for tools that need no pipeline.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "preprocess/documents/bad_lines.h"

namespace weft {

// Calls use(text) for the string, or each string of the list, under `json_key` of every line of
// `input` ("-": standard input). Bad lines are left out and counted, the message of the first one
// is given; lone surrogates become U+FFFD. Throws ReadCancelled soon after `cancelled` is set, as
// ByteSource::read, and what `use` throws.
void for_each_document(const std::string& input, const std::string& json_key,
                       const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line);

}  // namespace weft
