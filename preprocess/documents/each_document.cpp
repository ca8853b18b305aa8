#include "preprocess/documents/each_document.h"

#include <string>

#include "preprocess/documents/bad_line_hint.h"
#include "preprocess/documents/json_line.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/stream/line_chunks.h"
#include "preprocess/web/open_input.h"

namespace weft {

void for_each_document(const std::string& input, const std::string& json_key,
                       const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  constexpr size_t kMaxLineBytes = size_t{256} << 20;
  const auto source = open_input(input, cancelled);
  LineChunker chunker(*source, kChunkBytes, kMaxLineBytes);
  JsonLineParser parser({json_key}, kNoOriginKey, kMaxLineBytes);  // texts in one piece
  int64_t num_lines = 0;
  for (LineChunk chunk; chunker.next(chunk);) {
    if (chunk.is_too_long_line) {
      ++num_lines;
      bad_lines.add(LineProblem::kTooLong);
      continue;
    }
    LineWalker lines(chunk.text());
    for (std::string_view line; lines.next(line);) {
      if (cancelled.load(std::memory_order_relaxed)) throw ReadCancelled{};
      ++num_lines;
      const auto at = static_cast<size_t>(line.data() - chunk.text().data());
      const LineOutcome outcome = parser.parse(line, chunk.size_bytes - at - line.size());
      if (outcome.problem == LineProblem::kNone) {
        parser.each_text(0, [&](const TextPiece& piece) {
          use(piece.text);
          return true;
        });
        continue;
      }
      if (bad_lines.total() == 0) {
        BadLine bad_line{display_name(input), num_lines,
                         chunk.offset_bytes + static_cast<int64_t>(at), outcome};
        explain_bad_line(bad_line, chunk.text().substr(at), line, {json_key});
        first_bad_line = bad_line.message();
      }
      bad_lines.add(outcome.problem);
    }
  }
}

}  // namespace weft
