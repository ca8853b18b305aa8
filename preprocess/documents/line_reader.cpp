#include "preprocess/documents/line_reader.h"

#include <utility>

#include "preprocess/documents/bad_lines.h"
#include "preprocess/inputs/input_list.h"

namespace weft {

LineReader::LineReader(const std::vector<std::string>& keys, std::string_view origin_key,
                       size_t max_line_bytes)
    : keys_(keys), max_line_bytes_(max_line_bytes), parser_(keys, origin_key) {}

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

void for_each_document(const std::string& input, const std::string& json_key,
                       const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  const auto source = open_input(input, cancelled);
  LineChunker chunker(*source, kChunkBytes, kDefaultMaxLineBytes);
  LineReader documents({json_key}, kNoOriginKey, kDefaultMaxLineBytes);
  int64_t num_lines = 0;
  for (LineChunk chunk; chunker.next(chunk);) {
    documents.open(chunk);
    while (documents.next()) {
      if (cancelled.load(std::memory_order_relaxed)) throw ReadCancelled{};
      ++num_lines;
      const LineOutcome& outcome = documents.outcome();
      if (outcome.problem == LineProblem::kNone) {
        documents.each_text(0, [&](std::string_view text) {
          use(text);
          return true;
        });
        continue;
      }
      if (bad_lines.total() == 0) {
        BadLine bad_line = documents.describe(outcome);
        bad_line.input = make_input(input)->name();
        bad_line.line_number = num_lines;
        first_bad_line = bad_line.message();
      }
      bad_lines.add(outcome.problem);
    }
  }
}

}  // namespace weft
