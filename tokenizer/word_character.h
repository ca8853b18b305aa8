// The characters of words: \w of the engine by which Hugging Face's tokenizers look beside an added
// token that must be a word of its own.
#pragma once

#include <string_view>

namespace weft {

// True if the first character of `text`, which is not empty, is alphabetic, a mark, a decimal
// digit, a connector such as _ or a joiner. [Unicode Technical Standard 18, annex C]
bool is_word_character(std::string_view text);

}  // namespace weft
