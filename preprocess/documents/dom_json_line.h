// Reads a line of JSON with simdjson's DOM: the fast way, which nearly every line takes.
//
// It gives the same strings and the same origin as ExactJsonLine, or it gives up. It gives up where
// simdjson refuses the line (NaN, numbers beyond 64 bits, lone surrogates, invalid UTF-8, a byte
// order mark, deep nesting, no JSON at all) and where the line is no document. ExactJsonLine then
// decides, and says what is wrong.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/origin.h"

namespace weft {

// simdjson holds 14 bytes of memory for each byte of the longest line, as far as a line uses them.
constexpr size_t kMaxDomLineBytes = size_t{1} << 20;

// A line with fewer readable bytes behind it is copied.
constexpr size_t kDomPaddingBytes = 64;

// Reuses its memory from line to line: one per thread.
class DomJsonLine {
 public:
  // Throws as OriginStrings.
  DomJsonLine(std::vector<std::string> keys, std::string_view origin_key);
  ~DomJsonLine();

  // Parses a line of at most kMaxDomLineBytes, of any bytes. True if it is an object with a string
  // or a list of strings under every key; next_text() and origin() then have them. Throws
  // std::bad_alloc.
  bool parse(std::string_view line, size_t num_readable_behind);

  // Steps to the next string of a key, as JsonLineParser::next_text(). It is valid until the next
  // call of parse().
  bool next_text(size_t key_idx, std::string_view& text);
  Origin origin();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
