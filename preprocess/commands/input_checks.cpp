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

// Tells files apart; nothing for standard input and files that are not there.
std::optional<std::pair<dev_t, ino_t>> find_id(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

}  // namespace

std::string problem_of_inputs(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return "--input is required: give one or more JSONL files, or '-'";
  // Bytes that were read from a pipe are gone, whatever name it was read by.
  struct stat status {};
  const bool is_pipe =
      ::fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  std::string first;
  for (const std::string& input : inputs) {
    const bool is_its_pipe = is_pipe && find_id(input) == std::pair(status.st_dev, status.st_ino);
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

}  // namespace weft
