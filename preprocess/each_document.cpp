#include "preprocess/each_document.h"

#include <simdjson.h>

#include <string>
#include <utility>

#include "preprocess/byte_source.h"
#include "preprocess/json_line.h"
#include "preprocess/line_chunks.h"

namespace weft {

void for_each_document(const std::string& input, const std::string& json_key,
                       const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  constexpr size_t kMaxLineBytes = size_t{256} << 20;
  const auto source = open_input(input, cancelled);
  LineChunker chunker(*source, kChunkBytes, kMaxLineBytes);
  JsonLineParser parser({json_key});
  LineChunk chunk;
  while (chunker.next(chunk)) {
    if (chunk.is_too_long_line) {
      bad_lines.add(LineProblem::kTooLong);
      continue;
    }
    LineWalker lines(chunk.text());
    std::string_view line;
    while (lines.next(line)) {
      if (cancelled.load(std::memory_order_relaxed)) throw ReadCancelled{};
      const LineProblem problem =
          simdjson::validate_utf8(line) ? parser.parse(line).problem : LineProblem::kInvalidUtf8;
      if (problem != LineProblem::kNone) {
        bad_lines.add(problem);
      } else {
        std::string begun;  // of a long text, which comes in pieces
        for (JsonLineParser::TextPiece piece; parser.next_text(0, piece);) {
          if (begun.empty() && piece.rest_bytes == 0) {
            use(piece.text);
            continue;
          }
          begun += piece.text;
          if (piece.rest_bytes == 0) use(std::exchange(begun, {}));
        }
      }
    }
  }
}

}  // namespace weft
