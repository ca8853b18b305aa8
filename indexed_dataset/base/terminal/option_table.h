// The commands and options of a program as data, and what is made of them: man pages and the
// completion of shells. The options come from the parser itself, so that none is left out.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

struct OptionEntry {
  std::string name;   // "--input", or "PREFIX" of an argument
  std::string value;  // "TEXT", "N", "stop|skip"; "" of a flag
  std::string help;

  bool is_argument() const { return !name.starts_with("--"); }
  // The words that the option takes; none where it takes others, too.
  std::vector<std::string> choices() const;
};

// The options that --help shows, in the order of their declaration.
std::vector<OptionEntry> option_entries(const CLI::App& app);

struct CommandEntry {
  std::string name;  // "merge", "inspect samples"; "" of a program without commands
  std::string description, example;
  std::vector<OptionEntry> options;
};

struct ProgramEntry {
  std::string name, description, version;
  std::vector<CommandEntry> commands;
};

// Breaks the lines of a help text at the width of the terminal (standard output's, $COLUMNS, or
// 100), behind the column at which the texts of options begin.
std::string wrapped_help(const std::string& text);
// Breaks an example before its options, so that it can still be pasted.
std::string wrapped_command(const std::string& command);
// A page for man(1): groff with the macros of man(7).
std::string man_page(const ProgramEntry& program);
// Scripts that offer commands, options and the choices of options; elsewhere files.
std::string bash_completion(const ProgramEntry& program);
std::string zsh_completion(const ProgramEntry& program);

// Returns which of them the words of a command line ask for (`man`, `completion bash` and
// `completion zsh`, which an installation runs), nullptr for all other words.
using ProgramText = std::string (*)(const ProgramEntry&);
ProgramText find_program_text(const std::vector<std::string>& words);

}  // namespace weft
