// SHA-256, by OpenSSL.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

// The SHA-256 in 64 lower-case hexadecimal digits. Throws std::system_error if the file cannot be
// read.
std::string sha256_of_file(const std::filesystem::path& path);
// Returns the SHA-256 of bytes in memory.
std::string sha256_of(std::string_view bytes);
// The SHA-256 of bytes in memory, in base64, as a Content-Security-Policy has it.
std::string sha256_base64(std::string_view bytes);
// 64 hexadecimal digits in lower case; "" for any other text.
std::string lower_sha256(std::string text);

}  // namespace weft
