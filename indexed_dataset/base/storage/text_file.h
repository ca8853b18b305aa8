// Text files that people write and programs on other systems save.
#pragma once

#include <string>
#include <string_view>

#include "indexed_dataset/base/storage/whole_files.h"

namespace weft {

// Editors on Windows put these three bytes before the text, where nobody sees them.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

// The content of a regular file without a byte order mark. Throws std::system_error.
inline std::string read_text_file(const std::filesystem::path& path) {
  return std::string(without_byte_order_mark(read_regular_file(path)));
}

}  // namespace weft
