// The choices of GEMM algorithms as text, in which checkpoints, ranks and a file keep them.
//
//   weft-gemm-algorithms 1
//   <key> <value>
//
// A key is one word that names everything a choice depends on (shape, types, epilogue, library
// version, GPU); a value is one word of hexadecimal digits.
#pragma once

#include <map>
#include <string>

namespace weft {

using AlgorithmChoices = std::map<std::string, std::string>;

// Returns the choices of such a text, and none for "". Throws std::runtime_error when the text is
// of another kind; its message begins with `name`.
AlgorithmChoices parse_algorithms(const std::string& text, const std::string& name);
// Returns whether such a text begins like this, in this version or another one.
bool is_text_of_algorithms(const std::string& text);
// Returns the text, sorted by keys; "" where there are none.
std::string text_of(const AlgorithmChoices& choices);

}  // namespace weft
