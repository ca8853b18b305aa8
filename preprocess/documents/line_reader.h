// The documents of a chunk of lines of JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/document_reader.h"
#include "preprocess/documents/json_line.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

// Reads chunks that a LineChunker has cut.
class ChunkReader : public DocumentReader {
 public:
  // Begins with the first document of `chunk`, which must live until the last one.
  virtual void open(const LineChunk& chunk) = 0;
};

class LineReader final : public ChunkReader {
 public:
  // Longer lines than `max_line_bytes` are no documents; value() is for the keys of `condition`.
  // Throws as JsonLineParser.
  LineReader(const std::vector<std::string>& keys, std::string_view origin_key,
             size_t max_line_bytes, const Condition& condition = {});

  void open(const LineChunk& chunk) override;

  bool next() override;
  const LineOutcome& outcome() const override { return outcome_; }
  int64_t locator() const override { return chunk_->offset_bytes + position_in_chunk(); }
  bool each_text(size_t key_idx, const UseText& use) override {
    return parser_.each_text(key_idx, use);
  }
  DocumentValue value(size_t value_idx) override { return parser_.value(value_idx); }
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

}  // namespace weft
