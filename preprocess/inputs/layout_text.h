// A layout as one line of text, for another process.
#pragma once

#include <string>

#include "preprocess/compressed/input_parts.h"

namespace weft {

std::string layout_text(const InputLayout& layout);
InputLayout layout_from(const std::string& text);

}  // namespace weft
