#include "indexed_dataset/base/terminal/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/nearest_name.h"
#include "indexed_dataset/base/process/out_of_memory.h"
#include "indexed_dataset/base/process/standard_streams.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/process/test_hooks.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/option_table.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

// A command's own parser. It knows no other command, so that a dataset may have a command's name.
struct CommandParser {
  CommandParser(const std::string& program, Command& command)
      : app(command.description(), program + " " + command.name()), options(app) {
    app.set_help_flag("-h,--help", "print this and exit");
    app.allow_extras();
    command.declare(options);
  }
  CLI::App app;
  OptionSet options;
};

std::string help_of(const CommandParser& parser, const Command& command) {
  std::string help = wrapped_help(parser.app.help());
  if (!command.example().empty()) help += "\nExample:\n" + wrapped_command(command.example());
  return help;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string name_before_equals(const std::string& word) { return word.substr(0, word.find('=')); }

// CLI11 takes the word behind an option as its value even if it is the next option:
// `--output-prefix $OUT --append-eod` with OUT unset would name the output "--append-eod" and leave
// the documents without their ends. In quotes, `--tokenizer "$T"` would be as if it were not given.
// Such options are noted as problems and taken out of `words`.
bool take_out_options_without_value(const CLI::App& app, OptionSet& options, Words& words) {
  const auto is_option = [&](const std::string& word) {
    return word.starts_with("--") || (word != "-" && app.get_option_no_throw(word) != nullptr);
  };
  Words kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = name_before_equals(words[i]);
    if (words[i] == "--") {
      kept.insert(kept.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    const CLI::Option* option = is_option(name) ? app.get_option_no_throw(name) : nullptr;
    const bool wants_value = option != nullptr && option->get_items_expected_min() > 0;
    const bool has_equals = name.size() < words[i].size();
    const bool is_last = i + 1 == words.size();
    const bool is_empty = !has_equals && !is_last && words[i + 1].empty();
    const bool has_value = has_equals ? words[i].size() > name.size() + 1
                                      : !is_last && !is_empty && !is_option(words[i + 1]);
    if (has_value || !wants_value) {
      kept.push_back(words[i]);
    } else if (is_empty) {
      options.problem(name + ": its value is empty: a variable that is not set?");
      ++i;
    } else if (has_equals || is_last) {
      options.problem(name + ": its value is missing");
    } else {
      options.problem(fmt::format("{0}: its value is missing; if it is '{1}', write {0}={1}", name,
                                  words[i + 1]));
    }
  }
  const bool has_taken_out = kept.size() < words.size();
  words = std::move(kept);
  return has_taken_out;
}

// Notes what the parser left over: unknown options, and words that belong nowhere.
void note_unknown_arguments(const CLI::App& app, OptionSet& options) {
  bool after_option = false;
  bool after_mark = false;  // behind "--" no word is an option
  for (const std::string& argument : app.remaining()) {
    if (argument == "--" && !std::exchange(after_mark, true)) continue;
    const bool is_option = !after_mark && argument.size() > 1 && argument[0] == '-';
    if (is_option) {
      const std::string name = name_before_equals(argument);
      const std::string nearest = nearest_name(name, option_names(app));
      std::string hint = options.advice_for(name);
      if (hint.empty() && !nearest.empty()) hint = "did you mean " + nearest + "?";
      if (std::isdigit(static_cast<unsigned char>(argument[1])))
        hint = "as a number it is below 0, and they count from 0";
      options.problem(fmt::format("{}: unknown option{}{}", name, hint.empty() ? "" : "; ", hint));
    } else if (!after_option) {
      options.problem(fmt::format("'{}': unexpected argument", argument));
    }
    after_option = is_option || after_option;  // words after an unknown option are its values
  }
}

void throw_problems(const std::string& command, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  std::string text;
  if (problems.size() == 1) {
    text = problems[0];
  } else {
    text = fmt::format("{} problems with the options:", problems.size());
    for (const std::string& problem : problems) text += "\n  " + problem;
  }
  throw UsageError(text + "\n  " + command + " --help lists all options");
}

// Puts CLI11's message about an option with too many or too few values into our words.
std::string problem_of_parser(const std::string& what) {
  // Only flags are converted; all other values are taken as text.
  if (const std::string_view flag = "Could not convert: "; what.starts_with(flag)) {
    return what.substr(flag.size(), what.find(' ', flag.size()) - flag.size()) + ": takes no value";
  }
  const size_t colon = what.find(": ");
  if (colon == what.npos || !what.starts_with("--")) return what;
  const std::string name = what.substr(0, colon), reason = what.substr(colon + 2);
  const std::string_view many = "At Most 1 required but received ";
  if (reason.starts_with(many)) {
    return name + ": is given " + reason.substr(many.size()) + " times, give it once";
  }
  return what;
}

int run_command(const std::string& program, Command& command, Words words) {
  CommandParser parser(program, command);
  CLI::App& app = parser.app;
  OptionSet& options = parser.options;
  const bool lacks_values = take_out_options_without_value(app, options, words);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_of(parser, command));
    return 0;
  } catch (const CLI::ParseError& error) {
    options.problem(problem_of_parser(error.what()));
    throw_problems(app.get_name(), options.problems());
  }
  note_unknown_arguments(app, options);
  // Without the missing values the command would only complain of their absence once more.
  if (!lacks_values) command.validate(options);
  throw_problems(app.get_name(), options.problems());
  return command.run(options);
}

void print_help(const std::string& program, const std::string& description,
                const std::vector<Command*>& commands, bool with_options) {
  const std::string name = program.substr(0, program.find(' '));
  std::string text =
      fmt::format("{}\nUsage: {} COMMAND [OPTIONS]\n\nCommands:\n", description, program);
  for (const Command* command : commands)
    text += fmt::format("  {:<28}{}\n", command->name(), command->description());
  text += fmt::format(
      "\n{0} COMMAND --help lists the options of one, {0} --help-all those of all.\n"
      "{0} --version prints the version.\n",
      name);
  fmt::print("{}", wrapped_help(text));
  if (!with_options) return;
  for (Command* command : commands)
    fmt::print("\n{}", help_of(CommandParser(name, *command), *command));
}

// Prints what `completion SHELL` and `man` ask for. Returns false for other words.
bool print_for_installation(const std::string& program, const std::string& description,
                            const std::string& version_text,
                            const std::vector<std::unique_ptr<Command>>& commands,
                            const Words& words) {
  const ProgramText text_of = find_program_text(words);
  if (text_of == nullptr) return false;
  ProgramEntry entry{program, description, version_text, {}};
  for (const auto& command : commands) {
    entry.commands.push_back({command->name(), command->description(), command->example(),
                              option_entries(CommandParser(program, *command).app)});
  }
  fmt::print("{}", text_of(entry));
  return true;
}

// Answers words that name no command, or only the first of its two words.
int answer_without_command(std::string program, const std::string& description,
                           const std::string& version_text,
                           const std::vector<std::unique_ptr<Command>>& commands, Words words) {
  std::string group;  // "inspect ", or "" for all commands
  for (const auto& command : commands) {
    if (!words.empty() && command->name().starts_with(words[0] + " ")) group = words[0] + " ";
  }
  if (!group.empty()) {
    program += " " + words[0];
    words.erase(words.begin());
  }
  std::vector<Command*> meant;
  Words names;  // of which one is wanted next
  for (const auto& command : commands) {
    if (!command->name().starts_with(group)) continue;
    meant.push_back(command.get());
    const std::string rest = command->name().substr(group.size());
    const std::string name = rest.substr(0, rest.find(' '));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  const std::string word = words.empty() ? "" : words[0];
  if (word == "-v" || word == "--version") {
    fmt::print("{}\n", version_text);
    return 0;
  }
  if (word == "-h" || word == "--help" || word == "--help-all") {
    print_help(program, description, meant, word == "--help-all");
    return 0;
  }
  std::string text = fmt::format("give one of the commands {}", fmt::join(names, ", "));
  if (word.starts_with('-')) {
    text = fmt::format("{}: options stand behind the command; {}", word, text);
  } else if (!words.empty()) {
    const std::string nearest = nearest_name(word, names);
    text = fmt::format("'{}': unknown command; {}", word,
                       nearest.empty() ? text : "did you mean " + nearest + "?");
  }
  throw UsageError(text + "\n  " + program + " --help lists them");
}

// Parses, validates and runs one of `commands`. Throws UsageError that lists every
// problem with the options, and whatever the command throws.
int run_command_line(int argc, const char* const* argv, const std::string& description,
                     const std::string& version_text,
                     const std::vector<std::unique_ptr<Command>>& commands) {
  const std::string path = argv[0];
  const std::string program = path.substr(path.rfind('/') + 1);
  Words words(argv + 1, argv + argc);
  if (print_for_installation(program, description, version_text, commands, words)) return 0;
  if (!words.empty() && words[0] == "help") {  // `help merge` is `merge --help`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  for (const auto& command : commands) {
    const auto num_words = std::min<ptrdiff_t>(
        1 + std::count(command->name().begin(), command->name().end(), ' '), std::ssize(words));
    const auto end = words.begin() + num_words;
    if (fmt::format("{}", fmt::join(words.begin(), end, " ")) != command->name()) continue;
    words.erase(words.begin(), end);
    return run_command(program, *command, std::move(words));
  }
  return answer_without_command(program, description, version_text, commands, std::move(words));
}

// Returns `code`, or that of an error if the output did not arrive, unless its reader stopped
// early.
int exit_code_after_flush(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (code != 0 || errno == EPIPE) return code;
  return print_error(
      std::system_error(errno, std::generic_category(), "cannot write to standard output"));
}

// True if `error` is that the reader of our own output has seen enough. EPIPE from anywhere else,
// such as a socket, is an error.
bool is_reader_gone(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code().value() == EPIPE &&
         (std::ferror(stdout) != 0 || std::ferror(stderr) != 0);
}

}  // namespace

int run_program(int argc, const char* const* argv, const std::string& description,
                const std::string& version_text,
                const std::vector<std::unique_ptr<Command>>& commands) {
  protect_standard_streams();
  prepare_for_out_of_memory();
  if (const std::string hooks = active_test_hooks(); !hooks.empty()) print_message(hooks);
  try {
    return exit_code_after_flush(run_command_line(argc, argv, description, version_text, commands));
  } catch (const StoppedBySignal& stopped) {
    print_message(fmt::format("stopped by signal {}", stopped.signal));
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    return is_reader_gone(error) ? 0 : print_error(error);
  }
}

}  // namespace weft
