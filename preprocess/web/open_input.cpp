#include "preprocess/web/open_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <system_error>

#include "preprocess/web/url_source.h"

namespace weft {

std::unique_ptr<ByteSource> open_input(const std::string& path, const std::atomic<bool>& cancelled,
                                       const DecodeOptions& options) {
  std::unique_ptr<ByteSource> raw;
  if (looks_like_url(path)) {
    raw = open_url_source(path, {}, 0, cancelled);
  } else {
    raw = open_file(path, cancelled);
  }
  return decode(std::move(raw), display_name(path), options);
}

namespace {

// Guesses why somebody gave a name that no file has.
std::string hint_of_missing(const std::string& path) {
  const bool has_drive = path.size() > 2 && std::isalpha(static_cast<unsigned char>(path[0])) &&
                         path[1] == ':' && (path[2] == '\\' || path[2] == '/');
  if (path.empty()) return " (an empty name: a variable that is not set?)";
  if (has_drive) return " (a Windows path: within WSL, C:\\ is /mnt/c/)";
  if (path.starts_with('~')) return " (~ is not replaced within quotes: give $HOME)";
  if (path.find_first_of("*?") != path.npos) return " (no file fits the pattern)";
  if (path.ends_with(',')) return " (names are separated by spaces, not by commas)";
  return "";
}

}  // namespace

void check_inputs_can_be_opened(const std::vector<std::string>& paths) {
  int first_error = 0;
  std::string names;
  for (const std::string& path : paths) {
    if (path == "-" || looks_like_url(path)) continue;
    struct stat status {};
    int error = 0;
    if (::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0) {
      error = errno;
    } else if (S_ISDIR(status.st_mode)) {
      error = EISDIR;
    }
    if (error == 0 || (first_error != 0 && error != first_error)) continue;
    first_error = error;
    names += (names.empty() ? "'" : ", '") + path + "'";
    if (error == ENOENT) names += hint_of_missing(path);
    if (error == EISDIR) names += " (a folder: name the files in it)";
  }
  if (first_error != 0)
    throw std::system_error(first_error, std::generic_category(), "cannot read " + names);
}

std::string display_name(const std::string& path) {
  if (looks_like_url(path)) return display_url(path);
  return file_name(path);
}

}  // namespace weft
