// The inside of JSON strings, up to 64 bytes at a time: where a string ends, and what it stands
// for. The instructions are chosen as the tokenizer's (tokenizer/split/split.h, WEFT_SIMD); all give the
// same answers, errors included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/split/split.h"

namespace weft {

struct StringEnd {
  const char* position = nullptr;  // the closing quote, or where the error is
  const char* error = nullptr;     // nullptr: none
  bool has_escapes = false;
};

// Walks from `begin`, behind the opening quote, to the closing quote, and checks raw control
// characters and escapes. A string without end is an error at its opening quote, begin - 1.
StringEnd find_string_end(const char* begin, const char* end);
StringEnd find_string_end_with(Simd simd, const char* begin, const char* end);

// `out` of unescape_string() must have room for so many bytes more than the string.
inline constexpr size_t kUnescapeSlackBytes = 64;

// Writes what a JSON string stands for to `out` and returns the end of what it wrote: never more
// than raw.size() bytes, but up to kUnescapeSlackBytes behind them are overwritten. `raw` lies
// between the quotes and is valid JSON. Each lone surrogate becomes U+FFFD and adds one to
// `num_replaced`.
char* unescape_string(std::string_view raw, char* out, int64_t& num_replaced);
char* unescape_string_with(Simd simd, std::string_view raw, char* out, int64_t& num_replaced);

// Where to cut a string, at `at` or a few bytes before: not within a character, an escape, or the
// two escapes of a surrogate pair, so that both parts unescape to the parts of the whole. `raw` is
// valid up to there (`at` <= raw.size()) and begins at such a place. 0 if there is none, which
// takes an `at` below 13.
size_t cut_of_string(std::string_view raw, size_t at);

}  // namespace weft
