// Finds the columns that a request names, in words that do not depend on the format.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/columnar/table.h"

namespace weft {

using ColumnPath = std::vector<std::string>;

// The column under a path, if there is one, and whether it has texts.
struct FoundColumn {
  bool is_there = false, is_text = false, is_list = false;
  std::string type{};  // in words
  int index = -1;      // of the format's own, for text
};

// A column of the request in the order of a chunk's values.
struct WantedColumn {
  ColumnPath path;
  FoundColumn found;
  bool is_origin = false;
};

struct WantedColumns {
  std::vector<WantedColumn> columns;
  std::shared_ptr<const std::vector<std::string>> explanations;  // by key (RowChunk)
};

// The keys' columns, and those of origins that are there and text. Throws std::runtime_error, which
// `where` begins, where a key names a list.
WantedColumns find_columns(const RowRequest& request, const std::string& where,
                           const std::vector<std::string>& top_names,
                           const std::function<FoundColumn(const ColumnPath&)>& find);

// Adds a value: kTooLong, or cut, beyond what the request takes.
void add_value(RowChunk& chunk, std::string_view value, bool is_origin, const RowRequest& request);

}  // namespace weft
