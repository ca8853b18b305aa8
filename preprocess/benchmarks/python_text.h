// Does with the texts of benchmarks as Python's str and re do.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// str.strip()
std::string_view stripped(std::string_view text);

// str.capitalize(): the first letter large, all others small. Throws std::runtime_error for a
// letter beyond ASCII that would change: the tables of Unicode here have no cases.
std::string capitalized(const std::string& text);

// preprocess() of lm_eval/tasks/hellaswag/utils.py: without the marks of WikiHow in brackets.
std::string without_wikihow_marks(const std::string& text);

}  // namespace weft
