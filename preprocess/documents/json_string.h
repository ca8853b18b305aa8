// The inside of JSON strings: where a string ends, what it stands for, where it can be cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

struct StringEnd {
  const char* position = nullptr;  // the closing quote, or where the error is
  const char* error = nullptr;     // nullptr: none
  bool has_escapes = false;
};

// Walks from `begin`, behind the opening quote, to the closing quote, and checks raw control
// characters and escapes. A string without end is an error at its opening quote, begin - 1.
StringEnd find_string_end(const char* begin, const char* end);

// Appends what a JSON string stands for. `raw` lies between the quotes and is valid JSON. Returns
// the number of lone surrogate escapes, each of which became U+FFFD.
int64_t unescape_json(std::string_view raw, std::string& out);

// Where to cut a string, at `at` or a few bytes before: not within a character, an escape, or the
// two escapes of a surrogate pair, so that both parts unescape to the parts of the whole. `raw` is
// valid up to there (`at` <= raw.size()) and begins at such a place. 0 if there is none, which
// takes an `at` below 13.
size_t cut_of_string(std::string_view raw, size_t at);

}  // namespace weft
