#include "preprocess/inputs/input_list.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cctype>
#include <cerrno>
#include <map>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
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

bool is_pipe_or_device(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

std::shared_ptr<Input> make_input(const std::string& name, const HttpOptions& options) {
  if (looks_like_url(name)) return make_url_input(name, options);
  if (name == "-" || is_pipe_or_device(name)) return make_pipe_input(name);
  return make_file_input(name);
}

Inputs make_inputs(const std::vector<std::string>& names, const HttpOptions& options) {
  Inputs inputs;
  for (const std::string& name : names) inputs.push_back(make_input(name, options));
  return inputs;
}

std::unique_ptr<ByteSource> open_input(const std::string& name, const std::atomic<bool>& cancelled,
                                       const DecodeOptions& options, const HttpOptions& http) {
  const std::shared_ptr<Input> input = make_input(name, http);
  input->look(cancelled, {});
  return input->open(0, -1, cancelled, options);
}

void check_can_be_opened(const Inputs& inputs) {
  int first_error = 0;
  std::string names;
  for (const auto& input : inputs) {
    const int error = input->opening_error();
    if (error == 0 || (first_error != 0 && error != first_error)) continue;
    first_error = error;
    names += (names.empty() ? "'" : ", '") + input->name() + "'";
    if (error == ENOENT) names += hint_of_missing(input->name());
    if (error == EISDIR) names += " (a folder)";
  }
  if (first_error != 0)
    throw std::system_error(first_error, std::generic_category(), "cannot read " + names);
}

std::string problem_of_inputs(const std::vector<std::string>& names) {
  if (names.empty())
    return "--input is required: give JSONL files, folders, patterns or '-', or --input-list";
  const std::string* first = nullptr;
  for (const std::string& name : names) {
    if (make_input(name)->key() != kStandardInputKey) continue;
    if (first == nullptr) {
      first = &name;
    } else if (name == *first) {
      return fmt::format("--input: '{}' is given twice: standard input can be read once", name);
    } else {
      return fmt::format("--input: '{}' and '{}' are both standard input, which can be read once",
                         *first, name);
    }
  }
  return "";
}

std::string describe_repeated(const Inputs& inputs) {
  std::map<std::string, const Input*> first_of;  // by key
  std::pair<const Input*, const Input*> first_two{};
  int64_t num_repeated = 0;
  for (const auto& input : inputs) {
    const std::string key = input->key();
    if (key.empty() || first_of.emplace(key, input.get()).second) continue;
    if (num_repeated++ == 0) first_two = {first_of[key], input.get()};
  }
  if (num_repeated == 0) return "";
  return fmt::format("{} input{} given again ('{}' as '{}'): {} documents come twice", num_repeated,
                     num_repeated == 1 ? " is" : "s are", first_two.first->name(),
                     first_two.second->name(), num_repeated == 1 ? "its" : "their");
}

}  // namespace weft
