// The files that a folder or a pattern stands for.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct FilesOfName {
  std::set<std::string> paths, passed;  // sorted by their bytes; passed: those that are no inputs
};

// It decides which files of a folder are inputs. A file that is named itself has the format that
// its bytes say, but plain text, which may hold anything, must be asked for.
enum class InputFormat : uint8_t { kJsonLines, kText };

struct InputNames {
  const char* what;                       // "JSON lines"
  std::vector<std::string_view> endings;  // with or without .gz, .zst, .zstd, .xz or .bz2 behind
};
const InputNames& input_names(InputFormat format);
// ".jsonl, .ndjson or .json, and perhaps .gz, .zst, .xz or .bz2 behind it"
std::string describe(const InputNames& names);

// True if a file at this path in a folder is an input, by its own name.
bool is_input_path(const std::string& path, InputFormat format);

// The files in a folder and the folders in it that are inputs by their names; among JSON lines also
// .parquet and .arrow where the plug-in that reads them is there. Symbolic links are followed;
// hidden files and folders are passed over. Throws std::system_error for a folder that cannot be
// listed.
FilesOfName files_of_folder(const std::string& folder, InputFormat format);

// The files that fit a pattern, and those of the folders that fit it. Hidden ones fit where the
// pattern says the dot. Throws as files_of_folder().
FilesOfName files_of_pattern(const std::string& pattern, InputFormat format);

}  // namespace weft
