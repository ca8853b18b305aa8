#include "preprocess/documents/each_document.h"

#include <string>
#include <utility>

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
  JsonLineParser parser({json_key});
  LineChunk chunk;
  int64_t num_lines = 0;
  while (chunker.next(chunk)) {
    if (chunk.is_too_long_line) {
      ++num_lines;
      bad_lines.add(LineProblem::kTooLong);
      continue;
    }
    LineWalker lines(chunk.text());
    std::string_view line;
    while (lines.next(line)) {
      if (cancelled.load(std::memory_order_relaxed)) throw ReadCancelled{};
      ++num_lines;
      const std::string_view text = chunk.text();
      const auto at = static_cast<size_t>(line.data() - text.data());
      const LineOutcome outcome = parser.parse(line, text.size() - at - line.size());
      if (outcome.problem != LineProblem::kNone) {
        if (bad_lines.total() == 0) {
          const std::string hint =
              bad_line_hint(text.substr(at), line, num_lines == 1, outcome, {json_key});
          first_bad_line = BadLine{display_name(input), num_lines,
                                   chunk.offset_bytes + static_cast<int64_t>(at), outcome, hint}
                               .message();
        }
        bad_lines.add(outcome.problem);
      } else {
        std::string begun;  // of a long text, which comes in pieces
        for (TextPiece piece; parser.next_text(0, piece);) {
          if (piece.is_first && piece.is_last) {
            use(piece.text);
            continue;
          }
          begun += piece.text;
          if (piece.is_last) use(std::exchange(begun, {}));
        }
      }
    }
  }
}

}  // namespace weft
