#include "preprocess/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "preprocess/url.h"

namespace weft {

std::optional<int64_t> parse_int64(const std::string& text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const auto is_digit_at = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) return std::nullopt;
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

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

}  // namespace

namespace {

// As logs and manifests may show it: a URL's query may hold a signature.
std::string shown(const std::string& value) {
  return looks_like_url(value) ? display_url(value) : value;
}

std::string shown(const std::vector<std::string>& values) {
  std::string joined;
  for (const std::string& value : values) joined += (joined.empty() ? "" : " ") + shown(value);
  return joined;
}

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : help + " (default: " + value + ")";
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

void OptionSet::remember(const std::string& name, std::function<std::string()> value) {
  values_.emplace_back(name, std::move(value));
}

bool OptionSet::given(const std::string& name) const { return app_.count(name) > 0; }

std::vector<std::pair<std::string, std::string>> OptionSet::resolved() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [name, value] : values_) {
    result.emplace_back(name.starts_with("--") ? name.substr(2) : name, value());
  }
  return result;
}

std::string OptionSet::command_line() const {
  std::string line;
  for (const auto& [name, value] : values_) {
    const std::string text = value();
    if (text.empty() || text == "false") continue;
    if (!line.empty()) line += ' ';
    if (name.starts_with("--")) line += text == "true" ? name : name + " ";
    if (text != "true") line += text;
  }
  return line;
}

void OptionSet::text(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, with_default(help, value))->type_name("TEXT");
  remember(name, [&value] { return shown(value); });
}

void OptionSet::texts(const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  const auto joined = [&values] { return shown(values); };
  app_.add_option(name, values, with_default(help, joined()))->type_name("TEXT");
  remember(name, joined);
}

void OptionSet::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
  remember(name, [&value] { return value ? "true" : "false"; });
}

void OptionSet::choice(const std::string& name, std::string& value,
                       const std::vector<std::string>& choices, const std::string& help) {
  const auto set = [this, name, &value, choices](const std::string& given) {
    if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
      problem(fmt::format("{}: '{}' is none of {}", name, given, fmt::join(choices, ", ")));
    }
    value = given;
  };
  app_.add_option_function<std::string>(name, set, with_default(help, value))
      ->type_name(fmt::format("{}", fmt::join(choices, "|")));
  remember(name, [&value] { return value; });
}

std::optional<int64_t> OptionSet::parse_integer(const std::string& name, const std::string& text,
                                                int64_t min, int64_t max) {
  const std::optional<int64_t> value = parse_int64(text);
  if (!value) {
    problem(fmt::format("{}: '{}' is not an integer", name, text));
  } else if (*value < min) {
    problem(fmt::format("{}: {} is too small, the least is {}", name, *value, min));
  } else if (*value > max) {
    problem(fmt::format("{}: {} is too large, the most is {}", name, *value, max));
  }
  return value;
}

void OptionSet::integer(const std::string& name, int64_t& value, const std::string& help,
                        int64_t min, int64_t max) {
  const auto set = [this, name, &value, min, max](const std::string& text) {
    value = parse_integer(name, text, min, max).value_or(value);
  };
  app_.add_option_function<std::string>(name, set, with_default(help, std::to_string(value)))
      ->type_name("N");
  remember(name, [&value] { return std::to_string(value); });
}

void OptionSet::integer(const std::string& name, std::optional<int64_t>& value,
                        const std::string& help, int64_t min, int64_t max) {
  const auto set = [this, name, &value, min, max](const std::string& text) {
    value = parse_integer(name, text, min, max);
  };
  app_.add_option_function<std::string>(name, set, help)->type_name("N");
  remember(name, [&value] { return value ? std::to_string(*value) : ""; });
}

void OptionSet::integers(const std::string& name, std::vector<int64_t>& values, int count,
                         const std::string& help) {
  const auto set = [this, name, &values](const std::vector<std::string>& texts) {
    values.clear();
    for (const std::string& text : texts) {
      values.push_back(
          parse_integer(name, text, 0, std::numeric_limits<int64_t>::max()).value_or(0));
    }
  };
  app_.add_option_function<std::vector<std::string>>(name, set, help)
      ->expected(count)
      ->type_name("N");
  remember(name, [&values] { return fmt::format("{}", fmt::join(values, " ")); });
}

void OptionSet::positional(const std::string& name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->type_name("");
  remember(name, [&value] { return shown(value); });
}

void OptionSet::positionals(const std::string& name, std::vector<std::string>& values,
                            const std::string& help) {
  app_.add_option(name, values, help)->type_name("");
  remember(name, [&values] { return shown(values); });
}

namespace {

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
    throw std::invalid_argument(error.what());
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
