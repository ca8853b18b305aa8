// The checksum by which a file is told from another one of the same name.
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// XXH3 of all bytes of a file, as 16 hexadecimal digits. The file is read once from front to back
// and is not mapped, so that a disk that fails gives an exception. Throws std::system_error.
std::string xxh3_of_file(const std::filesystem::path& path);

}  // namespace weft
