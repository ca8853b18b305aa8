// BLOOM's pattern: ` ?[^(\s|[.,!?…。，、।۔،])]+`, where text between matches is a piece, too. In
// Oniguruma the class in brackets holds a class, so that ( | ) are in it as well.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/pattern_text.h"

namespace weft {

// PieceEnd. The classes must have kStopsOfBloom.
const uint8_t* bloom_piece_end(const PatternText& text, const uint8_t* p);

}  // namespace weft
