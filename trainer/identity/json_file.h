// Reads JSON files that other programs wrote: vocabularies, Hugging Face configurations, manifests
// of datasets.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace weft {

// Throws std::system_error if the file cannot be read, std::runtime_error with the path if it is no
// JSON or nested too deeply (indexed_dataset/base/process/parse_json.h).
nlohmann::json read_json_file(const std::filesystem::path& path);

}  // namespace weft
