#include "preprocess/commands/input_checks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <utility>

#include "preprocess/web/open_input.h"
#include "preprocess/web/url.h"

namespace weft {
namespace {

// Tells files apart. What is read of a pipe is gone.
struct FileId {
  dev_t device;
  ino_t number;
  bool is_pipe;
  auto operator<=>(const FileId&) const = default;
};

FileId id_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)};
}

// Returns nothing for standard input and files that are not there.
std::optional<FileId> find_id(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0) return std::nullopt;
  return id_of(status);
}

}  // namespace

std::string problem_of_inputs(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return "--input is required: give one or more JSONL files, or '-'";
  struct stat status {};
  const bool has_standard_input = ::fstat(STDIN_FILENO, &status) == 0;
  const FileId standard_input = id_of(status);
  std::string first;
  for (const std::string& input : inputs) {
    const bool is_its_pipe =
        has_standard_input && standard_input.is_pipe && find_id(input) == standard_input;
    if (input != "-" && !is_its_pipe) continue;
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
  std::map<FileId, const std::string*> files;
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

}  // namespace weft
