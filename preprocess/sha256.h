// SHA-256 of files, by OpenSSL.
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// 64 lower-case hexadecimal digits. Throws std::system_error if the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace weft
