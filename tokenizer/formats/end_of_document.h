// The token that ends documents.
#pragma once

#include <cstdint>

#include "tokenizer/vocabulary.h"

namespace weft {

// The special token that tokenizers of this kind were trained with (<|endoftext|>, <|end_of_text|>,
// </s>, ...), or -1 if there is none of these.
int32_t find_end_of_document(const Vocabulary::Parts& parts);

}  // namespace weft
