// Makes text safe to show: a corpus may hold escape sequences that a terminal would obey, and an
// address a signature.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// Escapes a text. Printable UTF-8 stays; line feeds, tabs and backslashes become \n, \t and \\;
// other control characters, invalid bytes, line separators, and the controls that reorder text
// (bidi) become \xHH or \u{HEX}.
std::string escape_for_terminal(std::string_view text);

// Escapes a message that may quote names of files. Backslashes stay, and so does a line feed with
// two spaces behind it, which is how our messages go on in a second line. A name can therefore
// begin no line of its own in a log.
std::string escape_message(std::string_view text);

// True for anything with a scheme ("https://..."): everything else is a path.
bool looks_like_url(std::string_view text);

// The URL as messages, logs and state files may show it: without query and fragment, which may hold
// a signature.
std::string display_url(const std::string& url);

// The columns of the terminal behind `fd`, or else $COLUMNS, or else `otherwise`.
size_t terminal_columns(int fd, size_t otherwise);
// Cuts `line` to one line of the terminal behind `fd` (80 columns if it does not tell) without its
// last column: a refreshed line must not wrap, or each refresh would leave one behind. Fields
// (separated by " | ") are left out whole, from the end.
std::string fit_to_terminal(const std::string& line, int fd);
// The first `num_columns` characters.
std::string first_columns(const std::string& line, size_t num_columns);

// "1 document", "7 documents".
std::string counted(int64_t count, const std::string& what);

// 1234567 -> "1,234,567"
std::string grouped(int64_t value);
// 0.2934 -> "29.3 %". A share that is neither all nor nothing is not rounded to it: "over 99.9 %",
// "under 0.1 %".
std::string percent(double share);

// The beginning of a text: at most `max_bytes`, cut between two characters.
std::string_view beginning_of(std::string_view text, size_t max_bytes);

// Returns the position of the first byte of `text` that is not UTF-8, or its size.
size_t num_valid_utf8_bytes(std::string_view text);

}  // namespace weft
