#include "preprocess/terminal/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace weft {
namespace {

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

// A command with its place in CLI11's tree.
struct Entry {
  Command* command;
  CLI::App* app;
  std::unique_ptr<OptionSet> options;
};

CLI::App& find_or_add_group(CLI::App& parent, const std::string& name) {
  for (CLI::App* child : parent.get_subcommands(nullptr)) {
    if (child->get_name() == name) return *child;
  }
  CLI::App* group = parent.add_subcommand(name, "has sub-commands: " + name + " --help");
  group->set_help_flag("--help", "print this and exit");
  group->allow_extras();
  return *group;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What was left over by the parser: unknown options, and words that belong nowhere.
void note_unknown_arguments(const CLI::App& app, OptionSet& options) {
  bool after_option = false;
  for (const std::string& argument : app.remaining()) {
    const bool is_option = argument.size() > 1 && argument[0] == '-';
    if (is_option) {
      const std::string name = argument.substr(0, argument.find('='));
      const std::string nearest = nearest_name(name, option_names(app));
      options.problem(fmt::format("{}: unknown option{}", name,
                                  nearest.empty() ? "" : "; did you mean " + nearest + "?"));
    } else if (!after_option) {
      options.problem(fmt::format("'{}': unexpected argument", argument));
    }
    after_option = is_option || after_option;  // words after an unknown option are its values
  }
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands(nullptr)) names.push_back(child->get_name());
  return names;
}

// The first word that should have been a sub-command.
[[noreturn]] void throw_no_command(const CLI::App& app) {
  const std::vector<std::string> names = command_names(app);
  std::string text = fmt::format("give one of the commands {}", fmt::join(names, ", "));
  for (const std::string& argument : app.remaining()) {
    if (argument.starts_with('-')) continue;
    const std::string nearest = nearest_name(argument, names);
    text = fmt::format("'{}': unknown command; {}", argument,
                       nearest.empty() ? text : "did you mean " + nearest + "?");
    break;
  }
  const std::string program = app.get_parent() == nullptr ? "" : app.get_parent()->get_name() + " ";
  throw std::invalid_argument(text + "\n  " + program + app.get_name() + " --help lists them");
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

// What CLI11 says of an option with too many or too few words, in ours.
std::string problem_of_parser(const std::string& what) {
  // Only flags are converted, all other values are taken as words.
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
  if (reason.ends_with(" missing")) return name + ": its value is missing";
  return what;
}

// "weft-data preprocess" as far as the command line names one.
std::string called(const CLI::App& root, int argc, const char* const* argv) {
  std::string words = root.get_name();
  const CLI::App* app = &root;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> names = command_names(*app);
    if (std::find(names.begin(), names.end(), argv[i]) == names.end()) break;
    words += std::string(" ") + argv[i];
    app = app->get_subcommand(argv[i]);
  }
  return words;
}

Entry add_command(CLI::App& root, Command& command) {
  const std::string name = command.name();
  const size_t space = name.find(' ');
  CLI::App& parent =
      space == std::string::npos ? root : find_or_add_group(root, name.substr(0, space));
  CLI::App* app = parent.add_subcommand(name.substr(space + 1), command.description());
  app->set_help_flag("--help", "print this and exit");
  app->option_defaults()->always_capture_default(false);
  app->allow_extras();
  Entry entry{&command, app, std::make_unique<OptionSet>(*app)};
  command.declare(*entry.options);
  return entry;
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  // A third of the letters wrong, or at least two: more is another word.
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
  CLI::App root(program_description, path.substr(path.rfind('/') + 1));
  root.set_help_flag("--help", "print this and exit");
  root.set_version_flag("--version", version_text, "print the version and exit");
  root.allow_extras();
  std::vector<Entry> entries;
  for (const auto& command : commands) entries.push_back(add_command(root, *command));
  // After the commands were added, which would inherit it.
  root.set_help_all_flag("--help-all", "print the options of all commands and exit");
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return root.exit(request);  // --help and --version
  } catch (const CLI::ParseError& error) {
    throw_problems(called(root, argc, argv), {problem_of_parser(error.what())});
  }
  for (Entry& entry : entries) {
    if (!entry.app->parsed()) continue;
    note_unknown_arguments(*entry.app, *entry.options);
    entry.command->validate(*entry.options);
    throw_problems(root.get_name() + " " + entry.command->name(), entry.options->problems());
    return entry.command->run(*entry.options);
  }
  for (const CLI::App* group : root.get_subcommands()) throw_no_command(*group);  // "inspect" alone
  throw_no_command(root);
}

}  // namespace weft
