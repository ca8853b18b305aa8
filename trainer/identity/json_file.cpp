#include "trainer/identity/json_file.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return parse_json<nlohmann::json>(text);
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not JSON: " + error.what());
  }
}

}  // namespace weft
