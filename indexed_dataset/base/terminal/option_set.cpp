#include "indexed_dataset/base/terminal/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::optional<int64_t> parse_int64(const std::string& text) {
  // Underscores stand between digits.
  if (text.starts_with('_') || text.ends_with('_') || text.find("__") != text.npos ||
      text.starts_with("-_"))
    return std::nullopt;
  std::string digits = text;
  std::erase(digits, '_');
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool is_written_as_integer(const std::string& text) {
  const size_t begin = text.starts_with('-') ? 1 : 0;
  return text.size() > begin && text.find_first_not_of("0123456789", begin) == text.npos;
}

namespace {

// Returns a value as logs and manifests may show it: the query of a URL may hold a signature.
std::string shown(const std::string& value) {
  return looks_like_url(value) ? display_url(value) : value;
}

std::string shown(const std::vector<std::string>& values) {
  std::string joined;
  for (const std::string& value : values) joined += (joined.empty() ? "" : " ") + shown(value);
  return joined;
}

// Arguments have no type in --help.
const char* type_of_text(const std::string& name) { return name.starts_with("--") ? "TEXT" : ""; }

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : help + " (default: " + value + ")";
}

}  // namespace

void OptionSet::remember(const std::string& name, std::function<std::string()> value) {
  values_.emplace_back(name, std::move(value));
  if (!group_.empty()) app_.get_option(name)->group(group_);
}

void OptionSet::check(const std::function<void()>& run) {
  try {
    run();
  } catch (const UsageError& error) {
    problem(error.what());
  }
}

bool OptionSet::given(const std::string& name) const { return app_.count(name) > 0; }

std::string OptionSet::advice_for(const std::string& name) const {
  const auto found = advice_.find(name);
  return found == advice_.end() ? "" : found->second;
}

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
  app_.add_option(name, value, with_default(help, value))->type_name(type_of_text(name));
  remember(name, [&value] { return shown(value); });
}

void OptionSet::texts(const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  app_.add_option(name, values, with_default(help, shown(values)))->type_name(type_of_text(name));
  remember(name, [&values] { return shown(values); });
}

void OptionSet::flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
  remember(name, [&value] { return value ? "true" : "false"; });
}

void OptionSet::declare_choice(const std::string& name, const std::vector<std::string>& names,
                               const std::string& help, const std::function<void(size_t i)>& set,
                               const std::function<std::string()>& value) {
  const auto parse = [this, name, names, set](const std::string& given) {
    const auto found = std::find(names.begin(), names.end(), given);
    if (found == names.end()) {
      problem(fmt::format("{}: '{}' is none of {}", name, given, fmt::join(names, ", ")));
    } else {
      set(static_cast<size_t>(found - names.begin()));
    }
  };
  app_.add_option_function<std::string>(name, parse, with_default(help, value()))
      ->type_name(fmt::format("{}", fmt::join(names, "|")));
  remember(name, value);
}

std::optional<int64_t> OptionSet::parse_integer(const std::string& name, const std::string& text,
                                                int64_t min, int64_t max) {
  const std::optional<int64_t> value = parse_int64(text);
  if (!value && is_written_as_integer(text)) {
    const bool is_negative = text.starts_with('-');
    problem(fmt::format("{}: {} is too {}, the {} is {}", name, text,
                        is_negative ? "small" : "large", is_negative ? "least" : "most",
                        is_negative ? min : max));
  } else if (!value) {
    problem(fmt::format("{}: '{}' is not an integer", name, text));
  } else if (*value < min) {
    problem(fmt::format("{}: {} is too small, the least is {}", name, *value, min));
  } else if (*value > max) {
    problem(fmt::format("{}: {} is too large, the most is {}", name, *value, max));
  }
  return value;
}

void OptionSet::declare_integer(const std::string& name, const std::string& help, int64_t min,
                                int64_t max, const std::function<void(int64_t)>& set,
                                const std::function<std::optional<int64_t>()>& value) {
  const auto parse = [this, name, min, max, set](const std::string& text) {
    if (const auto number = parse_integer(name, text, min, max)) set(*number);
  };
  const auto value_text = [value] { return value() ? std::to_string(*value()) : ""; };
  app_.add_option_function<std::string>(name, parse, with_default(help, value_text()))
      ->type_name("N");
  remember(name, value_text);
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

}  // namespace weft
