// Finds the strings under some keys in one line of JSON: by simdjson (DomJsonLine), or where that
// gives up by the exact definition of what a line means (ExactJsonLine).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/dom_json_line.h"
#include "preprocess/documents/exact_json_line.h"
#include "preprocess/documents/line_problem.h"

namespace weft {

// Reuses its buffers from line to line: one per thread.
class JsonLineParser {
 public:
  // As ExactJsonLine.
  explicit JsonLineParser(const std::vector<std::string>& keys,
                          std::string_view origin_key = kNoOriginKey,
                          size_t text_piece_bytes = kTextPieceBytes);

  // Parses one line. If the outcome is kNone, next_text() then has the strings of every key. With
  // fewer than kDomPaddingBytes of any readable bytes behind the line it is copied.
  LineOutcome parse(std::string_view line, size_t num_readable_behind = 0);

  // Steps to the next string of a key: its only one, or those of its list in order; false after the
  // last. A long one comes in several pieces, cut between two characters. Valid as long as the line
  // and until the next call of either function.
  bool next_text(size_t key_idx, TextPiece& piece);
  // Where the document says that it is from.
  Origin origin() { return is_dom_ ? dom_.origin() : exact_.origin(); }
  // Lone surrogates that were replaced in the texts of the last line so far.
  int64_t num_replaced_surrogates() const { return is_dom_ ? 0 : exact_.num_replaced_surrogates(); }

 private:
  DomJsonLine dom_;
  ExactJsonLine exact_;
  size_t max_dom_bytes_;  // so that the texts of such a line need no pieces
  bool is_dom_ = false;   // the last line was read by `dom_`
};

}  // namespace weft
