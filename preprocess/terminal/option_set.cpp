#include "preprocess/terminal/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "preprocess/web/url.h"

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

// For a text that parse_int64() refuses: true if it is a number that does not fit.
bool is_written_as_integer(const std::string& text) {
  const size_t begin = text.starts_with('-') ? 1 : 0;
  return text.size() > begin && text.find_first_not_of("0123456789", begin) == text.npos;
}

// Returns a value as logs and manifests may show it: the query of a URL may hold a signature.
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

void OptionSet::remember(const std::string& name, std::function<std::string()> value) {
  values_.emplace_back(name, std::move(value));
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

}  // namespace weft
