// The last member of a checkpoint's manifest.json, "checksum", is the XXH3 of the others as compact JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace weft {

void add_checksum(nlohmann::ordered_json& manifest);

// Takes the member off a manifest that was read from `path`. Throws ChecksumMismatch where another value stands
// there, and JSON exceptions where none does.
void take_checksum(nlohmann::ordered_json& manifest, const std::filesystem::path& path);

}  // namespace weft
