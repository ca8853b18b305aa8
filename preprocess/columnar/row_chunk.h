// Rows of a table on their way to a tokenizer: the values of some columns, copied out of the pages
// that they were read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Reused from chunk to chunk.
struct RowChunk {
  enum class Kind : uint8_t {
    kText,     // any bytes
    kNull,     // the row has no value
    kMissing,  // the row has nothing of what the column lies in
    kTooLong,  // more bytes than are wanted; it is not held
    kNumber,   // the bytes are a long double
    kBool,     // one byte, 0 or 1
  };
  struct Value {
    Kind kind = Kind::kNull;
    size_t end_bytes = 0;  // one past its bytes, which begin where those of the value before end
  };

  std::string bytes;  // of all values, back to back
  // Row by row: first those of the keys, then those of RowRequest::values, then the origins.
  std::vector<Value> values;
  size_t num_columns = 0;  // values of a row
  int64_t first_row = 0;   // from the begin of the task

  int64_t num_rows() const {
    return num_columns == 0 ? 0 : static_cast<int64_t>(values.size() / num_columns);
  }
  void clear() {
    bytes.clear();
    values.clear();
  }
  void add(Kind kind, std::string_view value = {}) {
    bytes += value;
    values.push_back({kind, bytes.size()});
  }
  void add_number(long double number) {
    add(Kind::kNumber, {reinterpret_cast<const char*>(&number), sizeof number});
  }
  // Keeps the first rows only.
  void cut(int64_t num_rows) {
    values.resize(static_cast<size_t>(num_rows) * num_columns);
    bytes.resize(values.empty() ? 0 : values.back().end_bytes);
  }
};

}  // namespace weft
