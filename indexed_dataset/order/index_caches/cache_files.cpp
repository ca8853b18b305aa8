#include "indexed_dataset/order/index_caches/cache_files.h"

#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {

std::string find_stamp(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return "";
    throw;
  }
}

std::string xxh3_text(std::span<const std::byte> bytes) {
  return std::to_string(XXH3_64bits(bytes.data(), bytes.size()));
}

void create_cache_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw std::system_error(error, "--data-cache-path " + folder.string() + ": cannot create it");
}

}  // namespace weft
