#include "preprocess/documents/each_document.h"

#include <string>

#include "preprocess/documents/line_reader.h"
#include "preprocess/documents/row_reader.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

void for_each_document(const std::string& name, const std::string& json_key,
                       const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  const std::shared_ptr<Input> input = make_input(name);
  input->look(cancelled);
  int64_t num_lines = 0;
  const auto use_all = [&](DocumentReader& documents) {
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
        bad_line.input = input->name();
        bad_line.line_number = num_lines;
        first_bad_line = bad_line.message();
      }
      bad_lines.add(outcome.problem);
    }
  };
  if (input->layout().has_rows) {
    const auto rows = input->open_rows(0, input->layout().file_bytes, 0,
                                       row_request({json_key}, kNoOriginKey, kDefaultMaxLineBytes,
                                                   kChunkBytes, DecoderLimits::kDefaultMaxBytes));
    RowReader documents({json_key}, kDefaultMaxLineBytes);
    for (RowChunk chunk; rows->next(chunk);) {
      documents.open(chunk);
      use_all(documents);
    }
    return;
  }
  const auto source = input->open(0, -1, cancelled, {});
  LineChunker chunker(*source, kChunkBytes, kDefaultMaxLineBytes);
  LineReader documents({json_key}, kNoOriginKey, kDefaultMaxLineBytes);
  for (LineChunk chunk; chunker.next(chunk);) {
    documents.open(chunk);
    use_all(documents);
  }
}

}  // namespace weft
