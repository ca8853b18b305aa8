// Is there room for what will be written? Asked before hours of work, not after.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft {

// The folder that `path` lies in; "." for a name without one.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Bytes that this user may still write to the file system of `folder`; nothing if it does not say.
std::optional<int64_t> free_bytes(const std::filesystem::path& folder);

// Throws std::system_error (ENOSPC; exit code 5) that names need and free bytes if the file system
// of the folder that `path` lies in has less than `need_bytes` left for this user.
void require_free_space(const std::filesystem::path& path, int64_t need_bytes);

}  // namespace weft
