// Writes and reads files of integers that hold what a killed analysis has measured so far.
//
//   file := value:i64[] checksum:u64      XXH3 of all values
//
// They are not synced, which would take as long as measuring does where samples are short. What a power cut
// leaves of one does not fit its checksum, and is measured again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace weft {

// Writes a file under another name and renames it. Throws std::system_error.
void write_value_file(const std::filesystem::path& path, std::span<const int64_t> values);

// Returns the values of a file, or nothing where there is none that is whole. Throws std::system_error
// where it cannot be read.
std::optional<std::vector<int64_t>> find_value_file(const std::filesystem::path& path);

}  // namespace weft
