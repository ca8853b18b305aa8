#include "preprocess/terminal/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace weft {
namespace {

using Words = std::vector<std::string>;

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

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
// the documents without their ends. Such options are noted as problems and taken out of `words`.
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
    const bool is_followed_by_option = i + 1 < words.size() && is_option(words[i + 1]);
    if (wants_value && has_equals && words[i].size() == name.size() + 1) {
      options.problem(name + ": its value is missing");
    } else if (wants_value && !has_equals && is_followed_by_option) {
      options.problem(fmt::format("{0}: its value is missing; if it is '{1}', write {0}={1}", name,
                                  words[i + 1]));
    } else if (wants_value && !has_equals && i + 1 == words.size()) {
      options.problem(name + ": its value is missing");
    } else {
      kept.push_back(words[i]);
    }
  }
  const bool has_taken_out = kept.size() < words.size();
  words = std::move(kept);
  return has_taken_out;
}

// Notes what the parser left over: unknown options, and words that belong nowhere.
void note_unknown_arguments(const CLI::App& app, OptionSet& options) {
  bool after_option = false;
  for (const std::string& argument : app.remaining()) {
    const bool is_option = argument.size() > 1 && argument[0] == '-';
    if (is_option) {
      const std::string name = name_before_equals(argument);
      const std::string nearest = nearest_name(name, option_names(app));
      std::string hint = options.advice_for(name);
      if (hint.empty() && !nearest.empty()) hint = "did you mean " + nearest + "?";
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
  throw std::invalid_argument(text + "\n  " + command + " --help lists all options");
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
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help
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

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool begins_with(const Words& words, const Words& begin) {
  return words.size() >= begin.size() && std::equal(begin.begin(), begin.end(), words.begin());
}

// Answers a command line that names no command of `program`, or only the first of its two words.
class NoCommand {
 public:
  NoCommand(std::string program, const std::vector<std::unique_ptr<Command>>& commands,
            const Words& words)
      : program_(std::move(program)), commands_(commands), rest_(words) {
    if (!words.empty() && !names_in_group(words[0]).empty()) {
      group_ = words[0];
      rest_ = rest_.subspan(1);
    }
  }
  std::string first_word() const { return rest_.empty() ? "" : rest_[0]; }

  void print_help(const std::string& description, bool with_options) const {
    fmt::print("{}\nUsage: {} COMMAND [OPTIONS]\n\nCommands:\n", description, called());
    for (const auto& command : commands_) {
      if (!is_in_group(*command)) continue;
      fmt::print("  {:<18} {}\n", command->name(), command->description());
    }
    fmt::print(
        "\n{0} COMMAND --help lists the options of one, {0} --help-all those of all.\n"
        "{0} --version prints the version.\n",
        program_);
    for (const auto& command : commands_) {
      if (!with_options || !is_in_group(*command)) continue;
      fmt::print("\n{}", CommandParser(program_, *command).app.help());
    }
  }

  [[noreturn]] void fail() const {
    const Words names = names_in_group(group_);
    std::string text = fmt::format("give one of the commands {}", fmt::join(names, ", "));
    if (first_word().starts_with('-')) {
      text = fmt::format("{}: options stand behind the command; {}", first_word(), text);
    } else if (!rest_.empty()) {
      const std::string nearest = nearest_name(first_word(), names);
      text = fmt::format("'{}': unknown command; {}", first_word(),
                         nearest.empty() ? text : "did you mean " + nearest + "?");
    }
    throw std::invalid_argument(text + "\n  " + called() + " --help lists them");
  }

 private:
  std::string called() const { return group_.empty() ? program_ : program_ + " " + group_; }
  bool is_in_group(const Command& command) const {
    return group_.empty() || command.name().starts_with(group_ + " ");
  }
  // The second words of the commands whose first one is `group`; with an empty one: the first words
  // of all commands.
  Words names_in_group(const std::string& group) const {
    Words names;
    for (const auto& command : commands_) {
      const Words words = words_of(command->name());
      if (!group.empty() && (words.size() < 2 || words[0] != group)) continue;
      const std::string& name = group.empty() ? words[0] : words[1];
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
  }

  std::string program_, group_;
  const std::vector<std::unique_ptr<Command>>& commands_;
  std::span<const std::string> rest_;
};

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  // With more than a third of its letters wrong (at least two), another word is meant.
  int best = std::max(2, static_cast<int>(name.size()) / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : names) {
    const int distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

int run_command_line(int argc, const char* const* argv, const std::string& program_description,
                     const std::string& version_text,
                     const std::vector<std::unique_ptr<Command>>& commands) {
  const std::string path = argv[0];
  const std::string program = path.substr(path.rfind('/') + 1);
  Words words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {  // `help merge` is `merge --help`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  for (const auto& command : commands) {
    const Words name = words_of(command->name());
    if (!begins_with(words, name)) continue;
    words.erase(words.begin(), words.begin() + std::ssize(name));
    return run_command(program, *command, std::move(words));
  }
  const NoCommand no_command(program, commands, words);
  const std::string word = no_command.first_word();
  if (word == "-v" || word == "--version") {
    fmt::print("{}\n", version_text);
  } else if (word == "-h" || word == "--help" || word == "--help-all") {
    no_command.print_help(program_description, word == "--help-all");
  } else {
    no_command.fail();
  }
  return 0;
}

}  // namespace weft
