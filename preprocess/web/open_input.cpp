#include "preprocess/web/open_input.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

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

// Tells files apart; nothing for standard input and files that are not there.
std::optional<std::pair<dev_t, ino_t>> find_id(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

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

std::string problem_of_inputs(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return "--input is required: give one or more JSONL files, or '-'";
  // Bytes that were read from a pipe are gone, whatever name it was read by.
  struct stat status {};
  const bool is_pipe =
      ::fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  // A file that is standard input would be read twice by these names, from wherever each begins.
  const auto is_named = [](const std::string& input) {
    return input == "-" || input == "/dev/stdin" || input == "/dev/fd/0" ||
           input == "/proc/self/fd/0";
  };
  std::string first;
  for (const std::string& input : inputs) {
    const bool is_its_pipe = is_pipe && find_id(input) == std::pair(status.st_dev, status.st_ino);
    if (!is_named(input) && !is_its_pipe) continue;
    if (first.empty()) {
      first = input;
    } else if (input == first) {
      return fmt::format("--input: '{}' is given twice: standard input can be read once", input);
    } else {
      return fmt::format("--input: '{}' and '{}' are both standard input, which can be read once",
                         first, input);
    }
  }
  return "";
}

std::string describe_repeated_inputs(const std::vector<std::string>& inputs) {
  std::map<std::pair<dev_t, ino_t>, const std::string*> files;
  std::map<std::string, const std::string*> urls;
  std::pair<const std::string*, const std::string*> first_two{};
  int64_t num_repeated = 0;
  for (const std::string& input : inputs) {
    const std::string* earlier = nullptr;
    if (looks_like_url(input)) {
      earlier = urls.emplace(input, &input).first->second;
    } else if (const auto id = find_id(input)) {
      earlier = files.emplace(*id, &input).first->second;
    }
    if (earlier == nullptr || earlier == &input) continue;
    if (num_repeated++ == 0) first_two = {earlier, &input};
  }
  if (num_repeated == 0) return "";
  return fmt::format("{} input{} given again ('{}' as '{}'): {} documents come twice", num_repeated,
                     num_repeated == 1 ? " is" : "s are", display_name(*first_two.first),
                     display_name(*first_two.second), num_repeated == 1 ? "its" : "their");
}

std::string display_name(const std::string& path) {
  if (looks_like_url(path)) return display_url(path);
  return file_name(path);
}

}  // namespace weft
