// The option --shard, and what a dataset's manifest says of it.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// Part and number of parts in "3/16". False for anything else, and for more than a million parts.
bool parse_shard(const std::string& text, int64_t& index, int64_t& count);

}  // namespace weft
