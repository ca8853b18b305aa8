#include "indexed_dataset/base/storage/free_space.h"

#include <algorithm>
#include <string>
#include <system_error>

namespace weft {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::optional<int64_t> free_bytes(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.available == static_cast<std::uintmax_t>(-1)) return std::nullopt;
  return static_cast<int64_t>(std::min<std::uintmax_t>(space.available, INT64_MAX));
}

void require_free_space(const std::filesystem::path& path, int64_t need_bytes) {
  const std::optional<int64_t> free = free_bytes(folder_of(path));
  // Not every file system answers: then the writes themselves will tell.
  if (!free || *free >= need_bytes) return;
  throw std::system_error(ENOSPC, std::generic_category(),
                          "'" + path.string() + "' needs " + std::to_string(need_bytes) +
                              " bytes, its file system has " + std::to_string(*free) +
                              " free; nothing was written");
}

}  // namespace weft
