#include "preprocess/documents/line_reader.h"

#include <utility>

#include "preprocess/documents/bad_line_hint.h"

namespace weft {

LineReader::LineReader(const std::vector<std::string>& keys, std::string_view origin_key,
                       size_t max_line_bytes, const Condition& condition)
    : keys_(keys), max_line_bytes_(max_line_bytes), parser_(keys, origin_key, keys_of(condition)) {}

void LineReader::open(const LineChunk& chunk) {
  chunk_ = &chunk;
  lines_ = LineWalker(chunk.text());
  has_too_long_line_ = chunk.is_too_long_line;
}

bool LineReader::next() {
  const bool is_held = !std::exchange(has_too_long_line_, false);
  if (is_held && !lines_.next(line_)) return false;
  if (!is_held) line_ = {chunk_->buffer.data(), 0};
  if (!is_held || line_.size() > max_line_bytes_) {
    outcome_ = {LineProblem::kTooLong,
                "more than " + std::to_string(max_line_bytes_) + " bytes (--max-line-bytes)", 0};
    return true;
  }
  const auto end = static_cast<size_t>(position_in_chunk()) + line_.size();
  outcome_ = parser_.parse(line_, chunk_->size_bytes - end);
  return true;
}

BadLine LineReader::describe(LineOutcome outcome) const {
  BadLine bad_line{"", 0, locator(), std::move(outcome)};
  if (chunk_->is_too_long_line) return bad_line;
  explain_bad_line(bad_line, chunk_->text().substr(static_cast<size_t>(position_in_chunk())), line_,
                   keys_);
  return bad_line;
}

}  // namespace weft
