// SHA-256, by OpenSSL.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

// 64 lower-case hexadecimal digits. Throws std::system_error if the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);
// Of bytes in memory, in base64, as a Content-Security-Policy has it.
std::string sha256_base64(std::string_view bytes);

}  // namespace weft
