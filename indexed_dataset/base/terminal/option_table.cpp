#include "indexed_dataset/base/terminal/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

size_t help_columns() { return terminal_columns(STDOUT_FILENO, 100); }

// Text of groff: backslashes and hyphens are written out, and no line begins with a request.
std::string groff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

// A word within single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A description of zsh's _describe: colons end names there.
std::string described(const std::string& name, const std::string& help) {
  return quoted(name + ":" + help);
}

std::string function_name(const ProgramEntry& program) {
  std::string name = "_" + program.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

// The words that may follow the words before, with their descriptions: {"inspect": {"samples",
// ...}}.
struct NextWords {
  Words names;
  std::vector<std::pair<std::string, std::string>> described;
};

std::map<std::string, NextWords> next_words(const ProgramEntry& program) {
  std::map<std::string, NextWords> next;
  for (const CommandEntry& command : program.commands) {
    std::istringstream words(command.name);
    std::string before;
    for (std::string word; words >> word; before += (before.empty() ? "" : " ") + word) {
      NextWords& here = next[before];
      if (std::ranges::find(here.names, word) != here.names.end()) continue;
      const bool is_whole = before.empty() ? command.name == word : true;
      here.names.push_back(word);
      here.described.emplace_back(word, is_whole ? command.description : "more commands");
    }
  }
  return next;
}

// The names of `options` whose values are those of one entry, joined for a pattern of `case`.
std::map<std::string, Words> options_by_choices(const CommandEntry& command) {
  std::map<std::string, Words> names;
  for (const OptionEntry& option : command.options) {
    const Words choices = option.choices();
    if (!choices.empty()) names[fmt::format("{}", fmt::join(choices, " "))].push_back(option.name);
  }
  return names;
}

// The pattern of `case` for the words between the program's name and the one to complete.
std::string words_of(const CommandEntry& command) {
  return command.name.empty() ? "*" : fmt::format("'{0}'|'{0} '*", command.name);
}

Words option_names_of(const CommandEntry& command) {
  Words names;
  for (const OptionEntry& option : command.options)
    if (!option.is_argument()) names.push_back(option.name);
  return names;
}

}  // namespace

Words OptionEntry::choices() const {
  Words choices;
  if (value.find('|') == value.npos) return choices;
  std::istringstream words(value);
  for (std::string word; std::getline(words, word, '|');) choices.push_back(word);
  return choices;
}

std::vector<OptionEntry> option_entries(const CLI::App& app) {
  std::vector<OptionEntry> entries;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const bool is_argument = option->get_positional();
    const bool is_flag = option->get_items_expected_max() == 0;
    entries.push_back({is_argument ? option->get_name(true) : "--" + option->get_lnames().at(0),
                       is_flag ? "" : option->get_type_name(), option->get_description()});
  }
  return entries;
}

std::string wrapped_help(const std::string& text) {
  constexpr size_t kHelpColumn = 30;  // CLI11's
  const size_t width = help_columns();
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    const size_t column = line.starts_with(' ') ? kHelpColumn : 0;
    begin = end + 1;
    while (line.size() > width) {
      const size_t blank = line.rfind(' ', width);
      if (blank == std::string::npos || blank <= column) break;
      result += line.substr(0, blank) + "\n";
      line = std::string(column, ' ') + line.substr(blank + 1);
    }
    result += line + "\n";
  }
  return result;
}

std::string wrapped_command(const std::string& command) {
  const size_t width = help_columns() - 2;  // with room for the backslash
  std::string line = "  " + command, result;
  while (line.size() > width) {
    const size_t option = line.rfind(" --", width);
    if (option == line.npos || option < 6) break;
    result += line.substr(0, option) + " \\\n";
    line = "      " + line.substr(option + 1);
  }
  return result + line + "\n";
}

std::string man_page(const ProgramEntry& program) {
  const bool has_commands = !program.commands.at(0).name.empty();
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n{}"
      "[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n{}Integers may hold underscores (300_000_000). Errors "
      "go to standard error, with an exit code that tells their kind.\n.SH {}\n",
      program.name, groff(program.version), groff(program.name), groff(program.description),
      groff(program.name), has_commands ? ".I COMMAND\n" : "",
      has_commands ? "Options stand behind the command. " : "",
      has_commands ? "COMMANDS" : "OPTIONS");
  for (const CommandEntry& command : program.commands) {
    if (has_commands)
      page += fmt::format(".SS {} {}\n{}.\n", groff(program.name), groff(command.name),
                          groff(command.description));
    for (const OptionEntry& option : command.options) {
      page += fmt::format(".TP\n\\fB{}\\fR", groff(option.name));
      if (!option.value.empty()) page += fmt::format(" \\fI{}\\fR", groff(option.value));
      page += fmt::format("\n{}\n", groff(option.help));
    }
    if (!command.example.empty())
      page += fmt::format(".PP\nExample:\n.PP\n.EX\n  {}\n.EE\n", groff(command.example));
  }
  return page;
}

std::string bash_completion(const ProgramEntry& program) {
  const std::string function = function_name(program);
  std::string script = fmt::format(
      "# Completion of {0} for bash, made by `{0} completion bash`.\n{1}() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=\n"
      "  case \"${{COMP_WORDS[*]:1:COMP_CWORD-1}}\" in\n",
      program.name, function);
  for (const auto& [before, next] : next_words(program))
    script += fmt::format("    '{}') words='{}' ;;\n", before, fmt::join(next.names, " "));
  for (const CommandEntry& command : program.commands) {
    script += fmt::format("    {})\n      case $previous in\n", words_of(command));
    for (const auto& [choices, names] : options_by_choices(command))
      script += fmt::format("        {}) words='{}' ;;\n", fmt::join(names, "|"), choices);
    script += fmt::format("        *) [[ $current != -* ]] || words='{}' ;;\n      esac ;;\n",
                          fmt::join(option_names_of(command), " "));
  }
  return script + fmt::format(
                      "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}}\n"
                      "complete -o default -F {} {}\n",
                      function, program.name);
}

std::string zsh_completion(const ProgramEntry& program) {
  std::string script = fmt::format(
      "#compdef {0}\n# Completion of {0} for zsh, made by `{0} completion zsh`.\n"
      "local -a found\ncase \"${{(j: :)words[2,CURRENT-1]}}\" in\n",
      program.name);
  for (const auto& [before, next] : next_words(program)) {
    Words lines;
    for (const auto& [name, description] : next.described)
      lines.push_back(described(name, description));
    script += fmt::format("  '{}') found=({}); _describe command found; return ;;\n", before,
                          fmt::join(lines, " "));
  }
  for (const CommandEntry& command : program.commands) {
    Words lines;
    for (const OptionEntry& option : command.options)
      if (!option.is_argument()) lines.push_back(described(option.name, option.help));
    script += fmt::format("  {})\n    case ${{words[CURRENT-1]}} in\n", words_of(command));
    for (const auto& [choices, names] : options_by_choices(command))
      script += fmt::format("      {}) compadd {}; return ;;\n", fmt::join(names, "|"), choices);
    script += fmt::format(
        "    esac\n    [[ $PREFIX = -* ]] || {{ _files; return; }}\n"
        "    found=({}); _describe -o option found ;;\n",
        fmt::join(lines, " "));
  }
  return script + "esac\n";
}

ProgramText find_program_text(const Words& words) {
  const std::string joined = fmt::format("{}", fmt::join(words, " "));
  if (joined == "man") return man_page;
  if (joined == "completion bash") return bash_completion;
  return joined == "completion zsh" ? zsh_completion : nullptr;
}

}  // namespace weft
