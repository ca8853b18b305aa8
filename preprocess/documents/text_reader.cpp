#include "preprocess/documents/text_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <utility>

#include "preprocess/documents/bad_line_hint.h"

namespace weft {

void TextReader::open(const LineChunk& chunk) {
  chunk_ = &chunk;
  lines_ = LineWalker(chunk.text());
  has_more_ = chunk.is_too_long_line || split_at_ == SplitAt::kNowhere;
}

// Goes to the next text of the chunk; false behind the last one.
bool TextReader::find_text() {
  if (split_at_ == SplitAt::kNowhere || chunk_->is_too_long_line) {
    text_ = chunk_->text();
    return std::exchange(has_more_, false);
  }
  if (!lines_.next(text_)) return false;
  if (split_at_ == SplitAt::kLine) return true;
  while (text_.empty()) {
    if (!lines_.next(text_)) return false;
  }
  for (std::string_view line; lines_.next(line) && !line.empty();)
    text_ = {text_.data(), static_cast<size_t>(line.data() + line.size() - text_.data())};
  return true;
}

bool TextReader::next() {
  if (!find_text()) return false;
  outcome_ = check();
  return true;
}

LineOutcome TextReader::check() const {
  if (chunk_->is_too_long_line || text_.size() > max_text_bytes_) {
    return {LineProblem::kTooLong,
            fmt::format("more than {} bytes (--max-line-bytes)", max_text_bytes_), 0};
  }
  if (!simdjson::validate_utf8(text_)) return {LineProblem::kInvalidUtf8, "", 0};
  return {};
}

BadLine TextReader::describe(LineOutcome outcome) const {
  BadLine bad_line{"", 0, locator(), std::move(outcome)};
  bad_line.unit = split_at_ == SplitAt::kLine ? DocumentUnit::kLine : DocumentUnit::kText;
  explain_bad_text(bad_line, text_);
  return bad_line;
}

}  // namespace weft
