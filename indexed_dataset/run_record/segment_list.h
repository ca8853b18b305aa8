// The list of a run's segments in files: run_manifest.json has those before the last one under
// "earlier", and the manifest of a checkpoint has all that led to it under "run_segments". The
// oldest comes first.
//
// Most of a segment is what it was before the run was resumed, and a thousand datasets take 400 KB.
// An object or array that equals that of the segment before is therefore written as the string
// "unchanged". Arguments, of which one has changed, stand there again, 6 KB:
//
//   [{"resumed_iteration": 0,   "arguments": {...},    "blends": {...}},
//    {"resumed_iteration": 300, "arguments": {...},    "blends": "unchanged"},
//    {"resumed_iteration": 700, "arguments": "unchanged", "blends": "unchanged"}]
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace weft {

// The "format" of a segment. A version of weft-train that writes another one counts it up: nothing
// else is read.
inline constexpr int64_t kRunFormat = 1;

// Returns the list as files have it.
nlohmann::ordered_json list_segments(const std::vector<nlohmann::ordered_json>& segments);

// Returns the segments of such a list, whole. Throws std::runtime_error for what is no list of
// objects.
std::vector<nlohmann::ordered_json> segments_of_list(const nlohmann::ordered_json& list);

// Returns all segments of run_manifest.json, which `path` names, the last one without the list of
// those before. Throws ChecksumMismatch for one that was changed since it was written, as above for
// what is no list, JSON exceptions, and std::system_error.
std::vector<nlohmann::ordered_json> read_manifest_segments(const std::filesystem::path& path);

}  // namespace weft
