// The documents of a chunk of lines of JSON.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/document_reader.h"
#include "preprocess/documents/json_line.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

// 64 MiB: no document that a model should read as one is so long, and a worker may hold a few
// lines.
inline constexpr size_t kDefaultMaxLineBytes = size_t{64} << 20;

class LineReader final : public DocumentReader {
 public:
  // Longer lines than `max_line_bytes` are no documents. Throws as JsonLineParser.
  LineReader(const std::vector<std::string>& keys, std::string_view origin_key,
             size_t max_line_bytes);

  // Begins with the first line of `chunk`, which must live until the last one.
  void open(const LineChunk& chunk);

  bool next() override;
  const LineOutcome& outcome() const override { return outcome_; }
  int64_t locator() const override { return chunk_->offset_bytes + position_in_chunk(); }
  bool each_text(size_t key_idx, const UseText& use) override {
    return parser_.each_text(key_idx, use);
  }
  Origin origin() const override { return parser_.origin(); }
  int64_t num_replaced_surrogates() const override { return parser_.num_replaced_surrogates(); }
  BadLine describe(LineOutcome outcome) const override;

 private:
  int64_t position_in_chunk() const { return line_.data() - chunk_->buffer.data(); }

  const std::vector<std::string> keys_;
  const size_t max_line_bytes_;
  JsonLineParser parser_;
  const LineChunk* chunk_ = nullptr;
  LineWalker lines_{{}};
  std::string_view line_;
  LineOutcome outcome_;
  bool has_too_long_line_ = false;  // the chunk stands for one that is not held, and comes next
};

// The documents of one JSONL file, one after another, for tools that need no pipeline.
//
// Calls use(text) for the string, or each string of the list, under `json_key` of every line of
// `input` ("-": standard input). Bad lines are left out and counted, the message of the first one
// is given; lone surrogates become U+FFFD. Throws ReadCancelled soon after `cancelled` is set, as
// ByteSource::read, and what `use` throws.
void for_each_document(const std::string& input, const std::string& json_key,
                       const std::atomic<bool>& cancelled,
                       const std::function<void(std::string_view)>& use, BadLineCounts& bad_lines,
                       std::string& first_bad_line);

}  // namespace weft
