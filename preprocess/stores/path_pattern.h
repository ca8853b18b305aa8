// Patterns of paths in a store, which has no folders to walk over: all paths below what stands
// before the first wildcard are listed, and each is compared with the pattern.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// True for a path with `*`, `?` or `[` in it. A file may have such a name as well.
bool is_path_pattern(std::string_view path);

// Everything up to the last slash before the first wildcard: "a/b/" of "a/b/c*/d".
std::string folder_before_wildcard(std::string_view pattern);

enum class PathFit {
  kNone,
  kItself,    // the pattern fits the path
  kInFolder,  // it fits a folder that the path lies in
};

// `*`, `?` and `[abc]` stand for characters of one name, `**` for any folders. Hidden names fit
// where the pattern says the dot. "" is a folder that holds all paths.
PathFit fit_of_path(std::string_view pattern, std::string_view path);

// False for a path with control characters, empty names, "." or ".." in it. One slash may end it.
bool is_sound_path(const std::string& path);

}  // namespace weft
