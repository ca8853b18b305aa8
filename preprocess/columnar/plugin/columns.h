// Finds the columns that a request names, in words that do not depend on the format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/columnar/table.h"

namespace weft {

using ColumnPath = std::vector<std::string>;

// The column under a path, and what its values are.
struct FoundColumn {
  enum class Kind : uint8_t {
    kNone,    // there is none
    kText,    // strings or bytes
    kNumber,  // integers or floating point
    kBool,
    kNull,  // it has no values
    kList,
    kOther
  };
  Kind kind = Kind::kNone;
  std::string type{};  // in words
  int index = -1;      // of the format's own

  bool has_values() const {
    return kind == Kind::kText || kind == Kind::kNumber || kind == Kind::kBool;
  }
};

// A column of the request in the order of a chunk's values.
struct WantedColumn {
  enum class Use : uint8_t { kKey, kValue, kOrigin };
  Use use;
  ColumnPath path;
  FoundColumn found;
};

// The columns of the keys and values, and those of origins that are there and text. Throws as
// Table::check; `where` begins the message.
std::vector<WantedColumn> find_columns(const RowRequest& request, const std::string& where,
                                       const std::vector<std::string>& top_names,
                                       const std::function<FoundColumn(const ColumnPath&)>& find);

// Adds a text: kTooLong, or cut, beyond what the request takes.
void add_text(RowChunk& chunk, std::string_view text, WantedColumn::Use use,
              const RowRequest& request);

}  // namespace weft
