// Entries that have ranks but no list of merges, as tiktoken and Tekken write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace weft {

// The bytes of base64 with padding, or none if it is not that.
std::optional<std::string> from_base64(std::string_view text);

// Sets bytes, merges and whole pieces of `parts`, whose entries with the ids `by_rank` have ranks
// in this order. tiktoken gives a piece that is an entry its id, and else joins those two
// neighbours whose bytes together have the lowest rank: so every pair of entries that joins to an
// entry is a merge. Throws std::runtime_error if an entry stands there twice.
void set_ranked_entries(const std::vector<int32_t>& by_rank, Vocabulary::Parts& parts);

}  // namespace weft
