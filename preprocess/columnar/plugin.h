// Finds and loads weft_columnar.so.
#pragma once

#include "preprocess/columnar/table.h"

namespace weft {

// The functions that the plug-in exports.
struct ColumnarPlugin {
  OpenTable* open_table;
  ReadJsonLines* read_json_lines;
};

// Loads the plug-in on the first call. Throws UsageError, which says how to get it, where it is not
// there or does not load; `name` and `what` are of the input that needs it.
const ColumnarPlugin& load_columnar_plugin(const std::string& name, const std::string& what);

// True if the plug-in is there. Does not load it.
bool has_columnar_plugin();

}  // namespace weft
