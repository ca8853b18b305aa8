// Corpus text made safe for terminals: it may hold escape sequences that a terminal would obey.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Printable UTF-8 stays; line feeds, tabs and backslashes become \n, \t and \\; other control
// characters, invalid bytes
// (\xHH), line separators, and the controls that reorder text (bidi) become \xHH or \u{HEX}.
std::string escape_for_terminal(std::string_view text);

// How many first bytes of `text` are UTF-8: where the first byte stands that is not.
size_t num_valid_utf8_bytes(std::string_view text);

}  // namespace weft
