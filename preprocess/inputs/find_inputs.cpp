#include "preprocess/inputs/find_inputs.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/base/terminal/text_pieces.h"
#include "preprocess/inputs/files_of_name.h"
#include "preprocess/stores/find_store.h"
#include "preprocess/stores/path_pattern.h"

namespace weft {
namespace {

// A list of all files of Common Crawl has 10 MB; what is longer is no list.
constexpr size_t kMaxListBytes = size_t{256} << 20;

std::string read_list(const std::string& list, const HttpOptions& options,
                      const std::atomic<bool>& cancelled) {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  const auto input = make_input(list, options);
  input->check_name();
  check_can_be_opened({input});
  input->look(cancelled, {});
  const auto source = input->open(0, -1, cancelled, {});
  std::string text;
  for (size_t num_read = 1; num_read > 0;) {
    const size_t num_before = text.size();
    text.resize(num_before + kBlockBytes);
    num_read = source->read(text.data() + num_before, kBlockBytes);
    text.resize(num_before + num_read);
    if (text.size() > kMaxListBytes) {
      throw UsageError(
          fmt::format("--input-list: '{}' has more than {} bytes: is it an input itself (--input)?",
                      input->name(), kMaxListBytes));
    }
  }
  return text;
}

// Everything up to the last slash of a path or an address.
std::string place_of_list(const std::string& list) {
  const std::string path = looks_like_url(list) ? list.substr(0, list.find_first_of("?#")) : list;
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

std::string name_in_list(const std::string& line, const std::string& place) {
  if (line.starts_with('/') || looks_like_url(line)) return line;
  return place.empty() || place.ends_with('/') ? place + line : place + '/' + line;
}

std::vector<std::string> names_of_list(const std::string& list, const GivenInputs& given,
                                       const std::atomic<bool>& cancelled) {
  const std::string text = read_list(list, given.http, cancelled);
  const std::string place = given.list_root.empty() ? place_of_list(list) : given.list_root;
  std::vector<std::string> names;
  int64_t line_number = 0;
  for (std::string_view rest = without_byte_order_mark(text); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line(trimmed(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with('{') || line.find('\0') != line.npos) {
      throw UsageError(fmt::format(
          "--input-list: line {} of '{}' is no name: {}", line_number, list,
          line.starts_with('{') ? "JSON lines are given by --input" : "it has a zero byte in it"));
    }
    names.push_back(name_in_list(line, place));
  }
  if (names.empty()) throw UsageError("--input-list: '" + list + "' names no input");
  return names;
}

// Throws for a folder, or for a pattern that only fits folders, without a file that is an input.
void check_has_files(const std::string& name, const FilesOfName& files, InputFormat format) {
  if (!files.paths.empty()) return;
  const InputNames& names = input_names(format);
  throw std::system_error(
      ENOENT, std::generic_category(),
      fmt::format("cannot read '{}' (no file in it has a name of {}: {}; files of other names are "
                  "named one by one, or by a pattern as '{}/*.{}'{})",
                  name, names.what, describe(names), name,
                  format == InputFormat::kText ? "log" : "data",
                  format == InputFormat::kText ? "" : "; texts are read by --input-format text"));
}

std::string note_of(const std::string& name, const FilesOfName& files, InputFormat format) {
  std::string note =
      fmt::format("'{}' stands for {}", name, counted(std::ssize(files.paths), "file"));
  if (files.passed.empty()) return note;
  note += fmt::format("; {} passed over (hidden, or of another name than {}):",
                      counted(std::ssize(files.passed), "other"), input_names(format).what);
  constexpr int kMostShown = 3;
  int num_shown = 0;
  for (const std::string& path : files.passed) {
    if (++num_shown > kMostShown) return note + " ...";
    note += " '" + path + "'";
  }
  return note;
}

// The files of a store as they were listed: with their commit, or what else pins them.
void add_stored(const std::string& name, const FilesOfName& files, InputFormat format,
                FoundInputs& found) {
  const bool is_one_file = files.paths.size() == 1 && files.passed.empty();
  if (!is_one_file) {
    found.notes.push_back(note_of(name, files, format));
  } else if (*files.paths.begin() != name) {
    found.notes.push_back(fmt::format("'{}' is '{}'", name, *files.paths.begin()));
  }
  found.names.insert(found.names.end(), files.paths.begin(), files.paths.end());
}

void add_found(const std::string& name, InputFormat format, StoredInputs& stored,
               FoundInputs& found) {
  if (find_store(name) != nullptr)
    return add_stored(name, stored.files_of(name, format), format, found);
  std::error_code error;
  const bool is_path = name != "-" && !looks_like_url(name);
  const bool is_there = is_path && std::filesystem::exists(name, error);
  FilesOfName files;
  if (is_there && std::filesystem::is_directory(name, error)) {
    files = files_of_folder(name, format);
    check_has_files(name, files, format);
  } else if (is_path && !is_there && is_path_pattern(name)) {
    files = files_of_pattern(name, format);
    if (!files.passed.empty()) check_has_files(name, files, format);
  }
  if (files.paths.empty()) {
    found.names.push_back(name);
    return;
  }
  found.notes.push_back(note_of(name, files, format));
  found.names.insert(found.names.end(), files.paths.begin(), files.paths.end());
}

}  // namespace

std::string problem_of_inputs(const GivenInputs& given) {
  const bool has_list_only = given.names.empty() && !given.lists.empty();
  return has_list_only ? "" : problem_of_inputs(given.names);
}

FoundInputs find_inputs(const GivenInputs& given, StoredInputs& stored,
                        const std::atomic<bool>& cancelled) {
  FoundInputs found;
  for (const std::string& name : given.names) add_found(name, given.format, stored, found);
  for (const std::string& list : given.lists) {
    const std::vector<std::string> names = names_of_list(list, given, cancelled);
    found.notes.push_back(fmt::format("'{}' names {}", list, counted(std::ssize(names), "input")));
    for (const std::string& name : names) add_found(name, given.format, stored, found);
  }
  for (const std::string& name : found.names) make_input(name, given.http)->check_name();
  if (const std::string problem = problem_of_inputs(found.names); !problem.empty())
    throw UsageError(problem);
  return found;
}

}  // namespace weft
