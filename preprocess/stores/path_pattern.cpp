#include "preprocess/stores/path_pattern.h"

#include <fnmatch.h>

#include <algorithm>

namespace weft {
namespace {

// Takes the first name of a path, and the slashes behind it, from its front.
std::string take_name(std::string_view& path) {
  const size_t slash = std::min(path.find('/'), path.size());
  std::string name(path.substr(0, slash));
  path.remove_prefix(slash);
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return name;
}

}  // namespace

bool is_path_pattern(std::string_view path) { return path.find_first_of("*?[") != path.npos; }

std::string folder_before_wildcard(std::string_view pattern) {
  const size_t slash = pattern.rfind('/', pattern.find_first_of("*?["));
  return std::string(slash == pattern.npos ? "" : pattern.substr(0, slash + 1));
}

PathFit fit_of_path(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return path.empty() ? PathFit::kItself : PathFit::kInFolder;
  if (path.empty()) return PathFit::kNone;
  std::string_view rest = pattern, below = path;
  const std::string wanted = take_name(rest), name = take_name(below);
  if (wanted == "**") {
    if (rest.empty()) return PathFit::kInFolder;
    const PathFit fit = fit_of_path(rest, path);
    if (fit != PathFit::kNone || name.starts_with('.')) return fit;
    return fit_of_path(pattern, below);
  }
  if (::fnmatch(wanted.c_str(), name.c_str(), FNM_PERIOD) != 0) return PathFit::kNone;
  return fit_of_path(rest, below);
}

bool is_sound_path(const std::string& path) {
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
  if (std::any_of(path.begin(), path.end(), is_control)) return false;
  for (size_t begin = 0; begin < path.size();) {
    const size_t slash = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, slash - begin);
    if (name.empty() || name == "." || name == "..") return false;
    begin = slash + 1;
  }
  return true;
}

}  // namespace weft
