// The last member of a manifest, "checksum", is the XXH3 of the others as compact JSON: a
// checkpoint's manifest.json and a run's run_manifest.json.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace weft {

void add_checksum(nlohmann::ordered_json& manifest);

constexpr std::string_view kTakeAnotherCheckpoint =
    "take another checkpoint (--ckpt-step of weft-train)";

// Takes the member off a manifest that was read from `path`. Throws ChecksumMismatch, which ends
// with `hint`, where another value stands there, and JSON exceptions where none does.
void take_checksum(nlohmann::ordered_json& manifest, const std::filesystem::path& path,
                   std::string_view hint = kTakeAnotherCheckpoint);

}  // namespace weft
