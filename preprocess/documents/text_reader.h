// The documents of a chunk of plain text: its lines, what lies between blank lines, or all of it.
#pragma once

#include <string_view>

#include "preprocess/documents/line_reader.h"

namespace weft {

// A text has no line end behind it, but for one that is a whole file, whose bytes it has all.
// Otherwise texts are the bytes of the file as they are, line ends within them included. A text of
// no bytes is a document, but there is none between blank lines.
class TextReader final : public ChunkReader {
 public:
  // Longer texts than `max_text_bytes` are no documents. `split_at` is that of the LineChunker.
  TextReader(SplitAt split_at, size_t max_text_bytes)
      : split_at_(split_at), max_text_bytes_(max_text_bytes) {}

  void open(const LineChunk& chunk) override;

  bool next() override;
  const LineOutcome& outcome() const override { return outcome_; }
  int64_t locator() const override {
    return chunk_->offset_bytes + (text_.data() - chunk_->buffer.data());
  }
  bool each_text(size_t, const UseText& use) override { return use(text_); }
  // A text has nothing beside it: the commands refuse --where and --origin-key.
  DocumentValue value(size_t) override { return {}; }
  Origin origin() const override { return {}; }
  int64_t num_replaced_surrogates() const override { return 0; }
  BadLine describe(LineOutcome outcome) const override;

 private:
  bool find_text();
  LineOutcome check() const;

  const SplitAt split_at_;
  const size_t max_text_bytes_;
  const LineChunk* chunk_ = nullptr;
  LineWalker lines_{{}};
  std::string_view text_;
  LineOutcome outcome_;
  bool has_more_ = false;  // of what is no lines: a whole file, or a text that is not held
};

}  // namespace weft
