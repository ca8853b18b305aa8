// The rows of a file as JSON objects: lines of JSON, Parquet, or Arrow as the package datasets
// caches it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace weft {

// Calls use(row) for each row of a file. Throws std::runtime_error, which names file and row (from
// 0 on), for what is no row, and for std::exception of `use`; UsageError where the plug-in for
// tables is missing; std::system_error.
void for_each_row(const std::string& path,
                  const std::function<void(const nlohmann::json& row)>& use);

}  // namespace weft
