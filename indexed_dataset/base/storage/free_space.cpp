#include "indexed_dataset/base/storage/free_space.h"

#include <string>
#include <system_error>

namespace weft {

void require_free_space(const std::filesystem::path& path, int64_t need_bytes) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  // Not every file system answers: then the writes themselves will tell.
  if (error || space.available == static_cast<std::uintmax_t>(-1)) return;
  if (need_bytes <= 0 || space.available >= static_cast<std::uintmax_t>(need_bytes)) return;
  throw std::system_error(ENOSPC, std::generic_category(),
                          "'" + path.string() + "' needs " + std::to_string(need_bytes) +
                              " bytes, its file system has " + std::to_string(space.available) +
                              " free; nothing was written");
}

}  // namespace weft
