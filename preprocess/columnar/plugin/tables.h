// The formats that the plug-in reads; see OpenTable.
#pragma once

#include <memory>
#include <string>

#include "preprocess/columnar/table.h"

namespace weft {

std::unique_ptr<Table> open_parquet_table(std::shared_ptr<const RandomAccess> file,
                                          const std::string& name, int64_t max_memory_bytes);
std::unique_ptr<Table> open_arrow_file(std::shared_ptr<const RandomAccess> file,
                                       const std::string& name, int64_t max_memory_bytes);
std::unique_ptr<Table> open_arrow_stream(std::shared_ptr<const RandomAccess> file,
                                         const std::string& name, int64_t max_memory_bytes);

void read_json_lines(TableFormat format, std::shared_ptr<const RandomAccess> bytes,
                     const std::string& name, int64_t max_memory_bytes,
                     const std::function<void(const std::string& line)>& use);

}  // namespace weft
