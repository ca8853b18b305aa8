#include "preprocess/documents/each_document.h"

#include <string>

#include "preprocess/documents/line_reader.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

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
