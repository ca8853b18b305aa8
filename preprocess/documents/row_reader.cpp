#include "preprocess/documents/row_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cstring>
#include <utility>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/documents/key_path.h"

namespace weft {

RowRequest row_request(const std::vector<std::string>& keys, std::string_view origin_key,
                       const Condition& condition, size_t max_text_bytes, size_t chunk_bytes,
                       int64_t max_memory_bytes) {
  RowRequest request;
  for (const std::string& key : keys) request.keys.push_back({key, nested_path(key)});
  for (const std::string& key : keys_of(condition))
    request.values.push_back({key, nested_path(key)});
  request.origins = origin_paths(origin_key);
  request.max_text_bytes = max_text_bytes;
  request.max_origin_bytes = kMaxOriginTextBytes;
  request.chunk_bytes = chunk_bytes;
  request.max_memory_bytes = max_memory_bytes;
  return request;
}

void RowReader::open(const RowChunk& chunk) {
  chunk_ = &chunk;
  row_ = -1;
}

bool RowReader::next() {
  if (row_ + 1 >= chunk_->num_rows()) return false;
  ++row_;
  for (size_t k = 0; k < keys_.size(); ++k) {
    outcome_ = outcome_of(k);
    bad_key_idx_ = k;
    if (outcome_.problem != LineProblem::kNone) break;
  }
  return true;
}

std::string_view RowReader::text_of(size_t column) const {
  const size_t i = index_of(column);
  const size_t begin = i == 0 ? 0 : chunk_->values[i - 1].end_bytes;
  return std::string_view(chunk_->bytes).substr(begin, chunk_->values[i].end_bytes - begin);
}

LineOutcome RowReader::outcome_of(size_t key_idx) const {
  const std::string& key = keys_[key_idx];
  switch (chunk_->values[index_of(key_idx)].kind) {
    case Kind::kMissing:
      return {LineProblem::kMissingKey, '"' + key + '"', 0};
    case Kind::kNull:
      return {LineProblem::kNotAString, "the value of \"" + key + '"', 0};
    case Kind::kTooLong:
      return {LineProblem::kTooLong,
              fmt::format("more than {} bytes (--max-line-bytes)", max_text_bytes_), 0};
    default:
      break;
  }
  const std::string_view text = text_of(key_idx);
  if (simdjson::validate_utf8(text)) return {};
  const size_t position = num_valid_utf8_bytes(text);
  return {LineProblem::kInvalidUtf8,
          fmt::format("byte 0x{:02X}", static_cast<uint8_t>(text[position])), position};
}

DocumentValue RowReader::value(size_t value_idx) {
  using DocumentKind = DocumentValue::Kind;
  const size_t column = keys_.size() + value_idx;
  const std::string_view bytes = text_of(column);
  DocumentValue value;
  switch (chunk_->values[index_of(column)].kind) {
    case Kind::kText:
      value.kind = DocumentKind::kString;
      value.text = bytes;
      break;
    case Kind::kNumber:
      value.kind = DocumentKind::kNumber;
      std::memcpy(&value.number, bytes.data(), sizeof value.number);
      break;
    case Kind::kBool:
      value.kind = DocumentKind::kBool;
      value.number = bytes[0];
      break;
    case Kind::kNull:
      value.kind = DocumentKind::kNull;
      break;
    default:
      break;
  }
  return value;
}

Origin RowReader::origin() const {
  for (size_t column = keys_.size() + num_values_; column < chunk_->num_columns; ++column) {
    if (chunk_->values[index_of(column)].kind != Kind::kText) continue;
    // It may be cut within a character.
    const std::string_view text = text_of(column);
    const Origin origin = origin_of(text.substr(0, num_valid_utf8_bytes(text)));
    if (!origin.is_empty()) return origin;
  }
  return {};
}

BadLine RowReader::describe(LineOutcome outcome) const {
  BadLine bad_line{"", 0, locator(), std::move(outcome)};
  bad_line.unit = DocumentUnit::kRow;
  const LineProblem problem = bad_line.outcome.problem;
  if (problem == LineProblem::kNotAString) bad_line.hint = "it is null";
  if (problem == LineProblem::kMissingKey) bad_line.hint = "what it lies in is null";
  return bad_line;
}

}  // namespace weft
