// The files that a folder or a pattern stands for.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace weft {

struct FilesOfName {
  std::set<std::string> paths, passed;  // sorted by their bytes; passed: those that are no inputs
};

// True for a name with `*`, `?` or `[` in it. A file may have such a name as well.
bool is_pattern(std::string_view name);

constexpr const char* kInputNames =
    ".jsonl, .ndjson or .json, and perhaps .gz, .zst, .xz or .bz2 behind it";

// True if a file at this path in a folder is an input, by its own name.
bool is_input_path(const std::string& path);

// The files of JSON lines in a folder and the folders in it, by their names: .jsonl, .ndjson and
// .json, with or without .gz, .zst, .zstd, .xz or .bz2 behind it; and .parquet and .arrow where the
// plug-in that reads them is there. Symbolic links are followed;
// hidden files and folders are passed over. Throws std::system_error for a folder that cannot be
// listed.
FilesOfName files_of_folder(const std::string& folder);

// The files that fit a pattern, and those of the folders that fit it. Hidden ones fit where the
// pattern says the dot. Throws as files_of_folder().
FilesOfName files_of_pattern(const std::string& pattern);

}  // namespace weft
