#include "preprocess/documents/each_document.h"

#include <string>

#include "preprocess/documents/row_reader.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

void for_each_document(Input& input, const TokenizeRules& rules, const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  const RowRequest request =
      row_request(rules.json_keys, kNoOriginKey, rules.where, rules.max_line_bytes, kChunkBytes,
                  DecoderLimits::kDefaultMaxBytes);
  input.look(cancelled, rules.split_texts_at ? RowRequest{} : request);
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
        bad_line.input = input.name();
        bad_line.line_number = num_lines;
        first_bad_line = bad_line.message();
      }
      bad_lines.add(outcome.problem);
    }
  };
  if (input.layout().has_rows) {
    check_can_be_read(input, rules);
    const auto rows = input.open_rows(0, input.layout().file_bytes, 0, request, cancelled);
    RowReader documents(rules.json_keys, rules.max_line_bytes, rules.where);
    for (RowChunk chunk; rows->next(chunk);) {
      documents.open(chunk);
      use_all(documents);
    }
    return;
  }
  const auto source = input.open(0, -1, cancelled, {});
  LineChunker chunker(*source, kChunkBytes, rules.max_line_bytes, 0, rules.split_at());
  if (rules.split_texts_at) chunker.pass_byte_order_mark();
  const auto documents = make_chunk_reader(rules);
  for (LineChunk chunk; chunker.next(chunk);) {
    documents->open(chunk);
    use_all(*documents);
  }
}

}  // namespace weft
