// The splitter for every processor, and the one that the others are tested against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/split/unicode_classes.h"

namespace weft {

// Returns the end of the run of characters of this class that goes on at `p`; `p` if there is none.
const uint8_t* run_end(const uint8_t* p, const uint8_t* end, CharClass char_class);

// Returns the end of the piece that starts at `p` < `end`.
const uint8_t* piece_end(const uint8_t* p, const uint8_t* end);

// Does what split_pieces says, for any `max_pieces`; finds fewer only at the end of the text.
size_t split_pieces_scalar(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);

}  // namespace weft
