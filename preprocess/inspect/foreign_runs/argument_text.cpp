#include "preprocess/inspect/foreign_runs/argument_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/text_pieces.h"

namespace weft {

void throw_bad_arguments(const std::string& what) { throw UsageError("--megatron-args: " + what); }
namespace {

using Values = std::vector<std::string>;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Returns the place behind the list that begins at `at`, which may hold quoted brackets.
size_t end_of_list(std::string_view text, size_t at) {
  int depth = 0;
  for (char quote = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']' && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

std::vector<std::string> python_values(std::string_view text) {
  if (text == "None" || text.empty()) return {};
  if (text.front() != '[') return {std::string(text)};
  Values values;
  for (size_t at = 1; at < text.size() && text[at] != ']';) {
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    const char first = text[at];
    const bool is_quoted = first == '\'' || first == '"';
    const size_t begin = is_quoted ? at + 1 : at;
    size_t end = is_quoted ? text.find(first, begin) : text.find_first_of(",]", begin);
    if (first == '[') end = end_of_list(text, at);
    if (end == std::string_view::npos)
      throw_bad_arguments("a list without its end: " + std::string(text.substr(0, 200)));
    values.emplace_back(trimmed(text.substr(begin, end - begin)));
    at = is_quoted ? end + 1 : end;
  }
  return values;
}

namespace {

// Reads "  seed ........ 43", whatever a launcher has put before it; nothing for other lines.
void add_banner_line(std::string_view line, Arguments& arguments) {
  const size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) return;
  const size_t end_of_dots = line.find_first_not_of('.', dots + 1);
  std::string_view name = trimmed(line.substr(0, dots));
  if (const size_t space = name.rfind(' '); space != std::string_view::npos)
    name = name.substr(space + 1);
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_name)) return;
  const std::string_view value =
      end_of_dots == std::string_view::npos ? "" : trimmed(line.substr(end_of_dots));
  arguments[std::string(name)] = python_values(value);
}

// The arguments of the last banner; nothing if there is none.
std::optional<Arguments> find_banner(std::string_view text) {
  std::optional<Arguments> arguments;
  bool is_inside = false;
  for (const std::string_view line : lines_of(text)) {
    if (line.find("--- end of arguments ---") != std::string_view::npos) {
      is_inside = false;
    } else if (line.find("--- arguments ---") != std::string_view::npos) {
      arguments.emplace();
      is_inside = true;
    } else if (is_inside) {
      add_banner_line(line, *arguments);
    }
  }
  if (is_inside) throw_bad_arguments("the banner of arguments has no end");
  return arguments;
}

// Returns the words of a command line, as a shell divides them. Refuses what a shell would replace.
Values shell_words(std::string_view text) {
  Values words;
  std::string word;
  bool has_word = false;
  char quote = 0;
  const auto end_word = [&] {
    if (has_word) words.push_back(std::exchange(word, {}));
    has_word = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '$' && quote != '\'') {
      throw_bad_arguments(
          "a shell would replace " + std::string(text.substr(i, 40)) +
          "; give the words as the program got them (the log's banner of arguments has them)");
    }
    if (quote != 0) {
      if (c == quote) quote = 0;
      if (c != quote && quote != 0) word += c;
      continue;
    }
    if (c == '\\' && i + 1 < text.size()) {
      const bool ends_line = text[i + 1] == '\n' || text.substr(i + 1, 2) == "\r\n";
      if (!ends_line) {
        word += text[i + 1];
        has_word = true;
      }
      i += ends_line && text[i + 1] == '\r' ? 2 : 1;
    } else if (c == '\'' || c == '"') {
      quote = c;
      has_word = true;
    } else if (c == '#' && !has_word) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      end_word();
    } else {
      word += c;
      has_word = true;
    }
  }
  if (quote != 0) throw_bad_arguments("a quote without its end");
  end_word();
  return words;
}

// "--seed 43" and "--seed=43"; words before the first flag are a program and its launcher.
Arguments arguments_of_words(const Values& words) {
  Arguments arguments;
  Values* values = nullptr;
  for (const std::string& word : words) {
    if (!word.starts_with("--") || word.size() < 3) {
      if (values) values->push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    values = &arguments[name];
    values->clear();
    if (equals != std::string::npos) values->push_back(word.substr(equals + 1));
  }
  // A flag without a value is set.
  for (auto& [name, of_name] : arguments) {
    if (of_name.empty()) of_name = {"True"};
  }
  return arguments;
}

// Megatron-DeepSpeed puts this folder before each word of data_path, and prints them so.
void add_download_path(Arguments& arguments) {
  const auto folder = arguments.find("aml_data_download_path"), paths = arguments.find("data_path");
  if (folder == arguments.end() || paths == arguments.end()) return;
  for (std::string& path : paths->second) path.insert(0, folder->second.front() + "/");
}

}  // namespace

Arguments parse_argument_text(std::string_view text) {
  std::optional<Arguments> arguments = find_banner(text);
  if (!arguments) {
    arguments = arguments_of_words(shell_words(text));
    add_download_path(*arguments);
  }
  if (arguments->empty()) {
    throw_bad_arguments(
        "it has neither a banner of arguments (--- arguments ---) nor words such as --seed 43");
  }
  return *std::move(arguments);
}

}  // namespace weft
