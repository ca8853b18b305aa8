// GPT-2's printable alphabet: in vocab.json and merges.txt each byte is written as one printable
// character, so that the files are readable text (bytes_to_unicode of OpenAI's encoder.py). 21-7E,
// A1-AC and AE-FF stand for themselves; the other 68 bytes, in order, are U+0100, U+0101, ...: a
// space is U+0120.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

uint32_t code_point_of_byte(uint8_t byte);

// Writes `bytes` in the printable alphabet, as UTF-8.
std::string to_printable(std::string_view bytes);

// Reads such a text; returns nothing if it is not UTF-8 or holds a character that stands for no
// byte.
std::optional<std::string> from_printable(std::string_view printable);

}  // namespace weft
