#include "preprocess/benchmarks/rows.h"

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/columnar/table_file.h"

namespace weft {

void for_each_row(const std::string& path,
                  const std::function<void(const nlohmann::json& row)>& use) {
  int64_t number = 0;
  const auto take = [&](const std::string& line) {
    try {
      use(parse_json<nlohmann::json>(line));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: row {}: {}", path, number, error.what()));
    }
    ++number;
  };
  if (const auto format = table_format_of_file(path)) return read_json_rows(path, *format, take);
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) take(line);
}

}  // namespace weft
