// The documents of a chunk of rows of a table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "preprocess/columnar/table.h"
#include "preprocess/documents/document_reader.h"

namespace weft {

// Returns the columns to read for documents with these keys and origins, and a condition. Throws as
// key_path() and origin_paths().
RowRequest row_request(const std::vector<std::string>& keys, std::string_view origin_key,
                       const Condition& condition, size_t max_text_bytes, size_t chunk_bytes,
                       int64_t max_memory_bytes);

class RowReader final : public DocumentReader {
 public:
  // As row_request() was given them. `max_text_bytes` is for messages: longer texts are in no
  // chunk.
  RowReader(const std::vector<std::string>& keys, size_t max_text_bytes,
            const Condition& condition = {})
      : keys_(keys), num_values_(condition.size()), max_text_bytes_(max_text_bytes) {}

  // Begins with the first row of `chunk`, which must live until the last one.
  void open(const RowChunk& chunk);

  bool next() override;
  const LineOutcome& outcome() const override { return outcome_; }
  int64_t locator() const override { return chunk_->first_row + row_; }
  bool each_text(size_t key_idx, const UseText& use) override { return use(text_of(key_idx)); }
  DocumentValue value(size_t value_idx) override;
  Origin origin() const override;
  int64_t num_replaced_surrogates() const override { return 0; }
  BadLine describe(LineOutcome outcome) const override;

 private:
  using Kind = RowChunk::Kind;

  size_t index_of(size_t column) const {
    return static_cast<size_t>(row_) * chunk_->num_columns + column;
  }
  std::string_view text_of(size_t column) const;
  LineOutcome outcome_of(size_t key_idx) const;

  const std::vector<std::string> keys_;
  const size_t num_values_;
  const size_t max_text_bytes_;
  const RowChunk* chunk_ = nullptr;
  int64_t row_ = -1;  // of the chunk
  LineOutcome outcome_;
  size_t bad_key_idx_ = 0;  // to which the outcome belongs
};

}  // namespace weft
