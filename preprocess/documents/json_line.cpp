#include "preprocess/documents/json_line.h"

#include <simdjson.h>

#include <algorithm>

namespace weft {

JsonLineParser::JsonLineParser(const std::vector<std::string>& keys, std::string_view origin_key,
                               size_t text_piece_bytes)
    : dom_(keys, origin_key),
      exact_(keys, origin_key, text_piece_bytes),
      max_dom_bytes_(std::min(text_piece_bytes, kMaxDomLineBytes)) {}

LineOutcome JsonLineParser::parse(std::string_view line, size_t num_readable_behind) {
  is_dom_ = line.size() <= max_dom_bytes_ && dom_.parse(line, num_readable_behind);
  if (is_dom_) return {};
  if (!simdjson::validate_utf8(line)) return {LineProblem::kInvalidUtf8, "", 0};
  return exact_.parse(line);
}

bool JsonLineParser::next_text(size_t key_idx, TextPiece& piece) {
  if (!is_dom_) return exact_.next_text(key_idx, piece);
  piece = {};
  return dom_.next_text(key_idx, piece.text);
}

}  // namespace weft
