// Takes lines that people paste apart: from the left, piece by piece.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

// Returns the text without the spaces, tabs and ends of lines around it.
std::string_view trimmed(std::string_view text);

// Removes `prefix` from the beginning of the text. Returns false, and removes nothing, where it
// does not stand there.
bool drop_prefix(std::string_view& text, std::string_view prefix);

// Removes a number of decimal digits from the beginning of the text and returns it. Returns
// nothing, and removes nothing, where there is none or it does not fit.
std::optional<int64_t> take_number(std::string_view& text);

}  // namespace weft
